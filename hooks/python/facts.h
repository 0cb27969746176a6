// SPDX-License-Identifier: Apache-2.0
// Versions of Python and torch, and what the Python source can see, as Fact and Source tables; once a
// process.
#pragma once

namespace gpuwatch::hooks::python {

// Without the GIL only the source's state and Python's version are known; the rest follows from the first
// wrapper that runs. Thread safety: any.
void put_python_facts() noexcept;

// With the GIL held, cheap after the first time in a process.
void put_torch_facts() noexcept;

}  // namespace gpuwatch::hooks::python
