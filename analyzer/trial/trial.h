// SPDX-License-Identifier: Apache-2.0
// Runs a command for a while and ends it, with every process that it started. Unless the trial is in place,
// what the command writes goes to an overlay (overlay.h) and is dropped.
//
// While a Trial exists, orphans of any process we start come to us (PR_SET_CHILD_SUBREAPER): start no other
// process meanwhile. Those that existed before are left alone. The job is killed if the thread that
// constructed the Trial ends (PR_SET_PDEATHSIG); its descendants would survive that, so the caller ends the
// trial before it exits on a signal.
//
// Threads: all calls from the thread that constructed it.
// Errors: io::UserError from the constructor when the output file cannot be opened or the overlay cannot be
// mounted. A command that cannot be started ends with 127 or 126, as with `gpuwatch run`; see cannot_start().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/trial/overlay.h"

namespace gpuwatch::trial {

// How long each request may take before the next, harder one.
struct TrialGrace {
  // The step that is being computed ends first; then the script saves what it saves on KeyboardInterrupt:
  // a checkpoint of some GB takes seconds on a local disk.
  std::chrono::milliseconds step_boundary = std::chrono::seconds(30);
  std::chrono::milliseconds interrupt = std::chrono::seconds(15);  // the checkpoint, without the step
  std::chrono::milliseconds terminate = std::chrono::seconds(5);   // no handler saves checkpoints on SIGTERM
};

struct TrialOptions {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // set for the job
  std::string output;             // file that receives the job's stdout and stderr
  std::vector<std::string> kept;  // existing directories that stay the real ones
  bool is_in_place = false;       // writes stay; else they go to an overlay
  std::string
      interrupt_file;   // the library interrupts the job at the end of a step once it exists; "" for none
  std::string scratch;  // preferred directory for the overlay's scratch folders
  TrialGrace grace;
};

enum class EndedBy { kItself, kStepBoundary, kInterrupt, kTerminate, kKill };

class Trial {
 public:
  explicit Trial(TrialOptions options);  // starts the job
  ~Trial();                              // ends it
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  bool is_running();                                      // the command itself, not what it left running
  std::optional<int> exit_code() const { return code_; }  // 128 + n for signal n
  const std::string& cannot_start() const { return cannot_start_; }

  // As Ctrl-C would, at the end of a step; in the end with SIGKILL to every descendant. Returns when no
  // process is left. The second call does nothing.
  void end();
  EndedBy ended_by() const { return ended_by_; }
  // Processes that do not end even by SIGKILL (blocked in a driver or a network file system); normally empty.
  const std::vector<pid_t>& left() const { return left_; }

  pid_t pid() const { return pid_; }
  const Overlay* overlay() const { return overlay_.get(); }  // null when in place
  std::string remove_overlay();  // after end(); a sentence when a scratch folder is left

 private:
  void start(int output);
  [[noreturn]] void become(int output, int error_pipe, pid_t parent);
  bool has_ended();
  bool is_over_within(std::chrono::milliseconds time);
  void kill_all();

  TrialOptions options_;
  std::unique_ptr<Overlay> overlay_;
  std::set<pid_t> other_children_;  // ours before the trial
  pid_t pid_ = -1;
  std::optional<int> code_;
  std::string cannot_start_;
  EndedBy ended_by_ = EndedBy::kItself;
  std::vector<pid_t> left_;
  bool is_ended_ = false;
  int was_subreaper_ = 0;
};

}  // namespace gpuwatch::trial
