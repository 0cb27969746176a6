// SPDX-License-Identifier: Apache-2.0
// The entry in sys.meta_path that sees the modules to wrap being imported. It is first in the list, answers
// for those few modules only, and asks the finders after it, once, as importlib would have done. The loader
// that they return gets an exec_module() for one call, which wraps the module after it was executed. All of
// it is C functions, so that a failing import has the same traceback as without us. It stays in the list
// (about 0.1 us an import), because a module may be reloaded or imported a second time.
//
// Thread safety: the GIL must be held. Signal safety: none.
#pragma once

namespace gpuwatch::hooks::python {

// False, with no exception pending, if sys.meta_path is not usable.
bool install_finder() noexcept;

}  // namespace gpuwatch::hooks::python
