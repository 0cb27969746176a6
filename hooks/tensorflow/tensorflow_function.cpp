// SPDX-License-Identifier: Apache-2.0
#include "hooks/tensorflow/tensorflow_function.h"

#include <sys/syscall.h>

#include "libinject/base/syscall.h"
#include "libinject/base/text.h"

namespace gpuwatch::hooks::tensorflow {

void end_as_the_linker_would(const char* symbol) noexcept {
  base::Text<512> line;
  line.add("symbol lookup error: undefined symbol: ").add(symbol).add('\n');
  base::raw_syscall(SYS_write, 2, base::address(line.c_str()), line.size());
  for (;;) base::raw_syscall(SYS_exit_group, 127);
}

#define GW_TEXT(symbol) #symbol
#define GW_TENSORFLOW(identifier, op_class, name, symbol) \
  constinit TensorFlowFunction g_##identifier(GW_TEXT(symbol));
#include "hooks/tensorflow/tensorflow.def"
#undef GW_TENSORFLOW

}  // namespace gpuwatch::hooks::tensorflow
