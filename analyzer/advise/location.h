// SPDX-License-Identifier: Apache-2.0
// Where in the user's program something happened: the script's file and line where Python recorded it, else
// the caller's module and offset, with function and line when the module can be read and `addr2line` is
// installed. Paths come from the trace and are not trusted: nothing goes through a shell, only regular files
// are opened. Results are not yet printable; empty: not known.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/model/run.h"

namespace gpuwatch::advise {

std::string call_location(const model::Run& run, const model::Process& process, uint32_t thread,
                          uint32_t call);
std::string address_location(const model::Process& process, uint64_t address);

}  // namespace gpuwatch::advise
