// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/compiler.h"

#include <algorithm>
#include <string_view>

namespace gpuwatch::model {
namespace {

// Frames that are only there while the compiler runs: those of compiled code are in all its calls.
// A stack keeps its innermost frames only, so each part of the compiler has to be known.
constexpr std::string_view kCompilerFrames[] = {
    "torch/_dynamo/convert_frame.py",   "torch/_dynamo/symbolic_convert.py",
    "torch/_dynamo/variables/",         "torch/_functorch/_aot_autograd/graph_compile.py",
    "torch/_inductor/async_compile.py", "torch/_inductor/codegen/",
    "torch/_inductor/cpp_builder.py",   "torch/_inductor/fx_passes/",
    "torch/_inductor/graph.py",         "torch/_inductor/scheduler.py",
    "triton/compiler/compiler.py",      "jax/_src/compiler.py"};

// The recorder takes no stack of calls below 1 ms; half of it, because clocks differ. Most calls are shorter.
constexpr Ns kLeastStall = 500'000;

bool is_of_compiler(std::string_view text) {
  return std::ranges::any_of(
      kCompilerFrames, [text](std::string_view frame) { return text.find(frame) != std::string_view::npos; });
}

}  // namespace

bool is_in_compiler(const Run& run, const Thread& thread, const HostCall& call) {
  const bool may_have_one = !thread.stacks.empty() && call.end - call.begin >= kLeastStall;
  const std::string* stack = may_have_one ? stack_of(run, thread, call) : nullptr;
  return stack && is_of_compiler(*stack);
}

std::optional<StackFrame> compiled_line_of(const Run& run, const Thread& thread, const HostCall& call) {
  const std::string* stack = stack_of(run, thread, call);
  if (!stack) return std::nullopt;
  std::vector<StackFrame> frames = frames_of(*stack);
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(),
                                      [](const StackFrame& frame) { return is_of_compiler(frame.file); });
  frames.erase(frames.begin(), outermost.base());
  const auto users = std::ranges::find_if(frames, is_users);
  return users == frames.end() ? std::nullopt : std::optional(*users);
}

}  // namespace gpuwatch::model
