// SPDX-License-Identifier: Apache-2.0
// The versions of the frameworks in this process as Fact tables, once a process, together with what only a
// call out of Python can find out: what the Python source sees, and whether stacks can be read. Thread
// safety: the GIL must be held.
#pragma once

namespace gpuwatch::hooks::python {

// For a recording that begins on a thread without the GIL: read with it, written without.
void read_versions() noexcept;
void write_versions() noexcept;

void put_versions() noexcept;  // cheap after the first time in a process

// JAX is in use, and not only loaded: Keras and TensorFlow import it, too.
void note_jax_compiles() noexcept;

}  // namespace gpuwatch::hooks::python
