// SPDX-License-Identifier: Apache-2.0
// A source is one way of seeing the job (hooks/<source>/). What the composition in entry.cpp knows of each:
//
//   arm()           from the library's constructor, in every process that carries it: nearly free, no system
//   call,
//                   no allocation; may look symbols up
//   on_recording()  once per trace file, when recording starts: writes what the source knows by then
//
// Neither may fail loudly: a source that cannot work says so with record::put_source(name, status).
#pragma once

namespace gpuwatch::hooks {

namespace cudart {
void on_recording() noexcept;
void on_driver_start() noexcept;  // the driver is being initialised, whoever asked for it: evidence
}  // namespace cudart
namespace injection {
void arm() noexcept;
}
namespace libc {
void arm() noexcept;
void on_recording() noexcept;
}  // namespace libc
namespace nccl {
void on_recording() noexcept;
}
namespace nvtx {
void on_recording() noexcept;
}
namespace python {
void arm() noexcept;
void on_recording() noexcept;
}  // namespace python

}  // namespace gpuwatch::hooks
