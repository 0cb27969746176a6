// SPDX-License-Identifier: Apache-2.0
// The entry in sys.meta_path that sees torch's modules being imported. It is first in the list, answers for
// the few target modules only, and for those asks the finders that come after it, once, as importlib would
// have; the loader they name gets an exec_module of its own, for one call, that prepares the module once it
// ran. All of it is C functions, so that a failing import shows the same traceback as without. It stays in
// the list (about 0.1 us an import), because a module may be reloaded or imported anew.
//
// Thread safety: the GIL must be held. Signal safety: none.
#pragma once

namespace gpuwatch::hooks::python {

// False, with no exception pending, if sys.meta_path is not usable.
bool install_finder() noexcept;

}  // namespace gpuwatch::hooks::python
