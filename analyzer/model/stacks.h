// SPDX-License-Identifier: Apache-2.0
// What recorded Python stacks say: where a call that stopped its thread stood, and which functions a loader's
// workers were in while their consumer waited. Stacks are text of the trace, "file:line function" a line,
// innermost first (a star behind a generator's name, a plus behind a package's), or, of programs without
// Python, "0x<return address>"; nothing is taken for granted about them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct StackFrame {
  std::string file;
  uint32_t line = 0;             // 0: not known
  std::string function;          // qualified where Python tells (3.11 and newer)
  bool is_generator = false;     // or a coroutine; not known of Python 3.10 and older
  bool is_of_package = false;    // of a package outside of site-packages (model/packages.h)
  std::string location() const;  // "file:line"
};

std::vector<StackFrame> frames_of(const std::string& text);  // at most 64; a line of another form is left out

// A native stack's return addresses, innermost first; empty for a Python stack.
std::vector<uint64_t> addresses_of(const std::string& text);

// Where the loader's dataset makes a sample (Loader::code), if it is written in Python outside packages.
std::optional<StackFrame> sample_code(const Loader& loader);
// Whether a file of a package, by the end of its path, makes them.
bool is_made_in(const Loader* loader, std::string_view file);

// Innermost frames of a stack that the recorder writes down (libinject/unwind/python_stack.h).
constexpr size_t kRecordedFrames = 16;

// Neither a package, nor Python's own library, nor the interpreter, nor a script that only starts a package's
// program (pip's bin/yolo).
bool is_users(const StackFrame& frame);
bool is_torch_or_interpreter(const StackFrame& frame);

// The innermost frame of the user's; without one, the innermost outside torch and Python's own library; null
// for none.
const StackFrame* users_frame(const std::vector<StackFrame>& frames);

// The stack of this call, null if it has none.
const std::string* stack_of(const Run& run, const Thread& thread, const HostCall& call);

// The user's frame that most calls like this one had: the call itself, else those of the same operation and
// the same caller on its thread.
std::optional<StackFrame> users_line_of(const Run& run, const Thread& thread, const HostCall& call);

// A wait, by Python's own means, for what another thread or process of the program makes: in a queue's get(),
// a future's result(), a connection's or a socket's recv(), a condition or a lock that these are made of. Not
// where it waits for that thread to end.
bool waits_for_a_result(const std::vector<StackFrame>& frames);

// A function that samples were in. Its time is what its samples stand for.
struct SeenLine {
  uint32_t line = 0;
  double share = 0;  // of all samples, by weight
};

struct SeenFunction {
  StackFrame frame;  // the line that was seen most
  size_t samples = 0;
  double share = 0;               // of the samples, by weight
  std::vector<SeenLine> lines{};  // largest first
};

// Samples by function.
class FunctionTallies {
 public:
  void add(const StackFrame& frame, double weight);
  std::vector<SeenFunction> by_share() const;  // largest first

 private:
  struct Tally {
    size_t samples = 0;
    double weight = 0;
    bool is_of_package = false;
    std::map<uint32_t, double> lines;  // by weight
  };
  std::map<std::pair<std::string, std::string>, Tally> functions_;
  double weight_ = 0;
};

// The user's frame of a stack, by its id in Run::texts.
std::optional<StackFrame> users_line(const Run& run, uint32_t text);

struct WorkerActivity {
  size_t stack_samples = 0;             // of busy workers
  double busy_share = 0;                // of all samples after the workers had started, by weight
  double starting_share = 0;            // of all samples: before the worker's loop had begun
  double decoding_share = 0;            // of busy samples: in a decoder of files (model/decoders.h)
  std::vector<SeenFunction> functions;  // of busy samples
};

// The stack samples of its workers.
std::vector<const WorkerStack*> worker_samples(const Process& process, uint32_t loader);

// What the workers of Process::loaders[loader] were seen doing. A function is the user's frame of a stack;
// the worker's own part of PyTorch (taking an index, handing a batch over) is told by its innermost frame.
WorkerActivity worker_activity(const Run& run, const Process& process, uint32_t loader);
// That of the loader whose workers were seen most.
WorkerActivity main_worker_activity(const Run& run, const Process& process);

}  // namespace gpuwatch::model
