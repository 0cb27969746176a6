// SPDX-License-Identifier: Apache-2.0
#include "hooks/tensorflow/tensorflow_function.h"

#include <sys/syscall.h>

#include "libinject/base/syscall.h"
#include "libinject/base/text.h"

namespace gpuwatch::hooks::tensorflow {

namespace {

[[noreturn]] GW_COLD void end_as_the_linker_would(const char* symbol) noexcept {
  base::Text<512> line;
  line.add("symbol lookup error: undefined symbol: ").add(symbol).add('\n');
  base::raw_syscall(SYS_write, 2, base::address(line.c_str()), line.size());
  for (;;) base::raw_syscall(SYS_exit_group, 127);
}

}  // namespace

SixWords TensorFlowFunction::find_anywhere() noexcept {
  void* found = nullptr;
  runtime::find_next_definitions(&wanted_, &found, 1);
  if (!found) end_as_the_linker_would(wanted_.name);
  real_.keep(found);
  return reinterpret_cast<SixWords>(found);
}

#define GW_TEXT(symbol) #symbol
#define GW_TENSORFLOW(identifier, op_class, name, symbol) \
  constinit TensorFlowFunction g_##identifier(GW_TEXT(symbol));
#include "hooks/tensorflow/tensorflow.def"
#undef GW_TENSORFLOW

}  // namespace gpuwatch::hooks::tensorflow
