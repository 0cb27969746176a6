// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/trial/start_command.h"

extern char** environ;

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{10};  // far below the seconds that a job takes to end
// SIGKILL takes effect at once but in a system call that cannot be interrupted: freeing tens of GB of pinned
// memory takes seconds. Longer than this is a driver or a network file system that hangs.
constexpr milliseconds kKillGrace = std::chrono::seconds(20);

struct Process {
  pid_t parent;
  char state;
};

// /proc/<pid>/task/*/children misses processes unless all are stopped (proc(5)), and needs a kernel option.
std::map<pid_t, Process> all_processes() {
  std::map<pid_t, Process> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    pid_t pid = std::atoi(entry->path().filename().c_str());
    if (pid <= 0) continue;
    std::string line;
    std::ifstream file(entry->path() / "stat");
    std::getline(file, line);
    size_t name_end = line.rfind(')');  // the name may contain anything
    if (name_end == line.npos || name_end + 4 > line.size()) continue;
    found[pid] = {std::atoi(line.c_str() + name_end + 4), line[name_end + 2]};
  }
  return found;
}

std::set<pid_t> descendants(const std::set<pid_t>& except) {
  const std::map<pid_t, Process> processes = all_processes();
  std::set<pid_t> tree = {getpid()};
  for (size_t before = 0; before != tree.size();) {
    before = tree.size();
    for (const auto& [pid, process] : processes)
      if (tree.contains(process.parent) && !except.contains(pid)) tree.insert(pid);
  }
  tree.erase(getpid());
  return tree;
}

std::set<pid_t> children() {
  std::set<pid_t> ours;
  for (const auto& [pid, process] : all_processes())
    if (process.parent == getpid()) ours.insert(pid);
  return ours;
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// 0600: what a job prints may hold tokens. O_NOFOLLOW: a link in a shared folder may lead to any file.
int opened_output(const std::string& path) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    throw io::UserError(fmt::format("cannot write {}: {}", io::printable(path), std::strerror(errno)));
  return fd;
}

// Ctrl-C must work in the job even if we were started in the background, where the shell ignores SIGINT.
void reset_signals() {
  for (int number : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGCHLD, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

int read_errno(int pipe) {
  int error = 0;
  ssize_t bytes;
  do bytes = read(pipe, &error, sizeof error);
  while (bytes < 0 && errno == EINTR);
  return bytes == sizeof error ? error : 0;
}

}  // namespace

Trial::Trial(TrialOptions options) : options_(std::move(options)) {
  if (options_.command.empty()) throw io::UserError("no command to try");
  int output = opened_output(options_.output);
  try {
    if (!options_.is_in_place)
      overlay_ = std::make_unique<Overlay>(
          OverlayPlan{options_.kept, likely_written(options_.command), options_.scratch});
    prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    other_children_ = children();
    start(output);
  } catch (...) {
    close(output);
    prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
    throw;
  }
  close(output);
}

Trial::~Trial() {
  end();
  prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
}

void Trial::start(int output) {
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0)
    throw io::UserError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(output, pipes[1], parent);
  int fork_error = errno;
  close(pipes[1]);
  std::string overlay_error = pid_ > 0 && overlay_ ? overlay_->wait_until_entered() : "";
  int exec_error = pid_ > 0 ? read_errno(pipes[0]) : 0;
  close(pipes[0]);
  if (pid_ < 0) throw io::UserError(fmt::format("cannot start a process: {}", std::strerror(fork_error)));
  if (!overlay_error.empty()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    throw io::UserError("cannot set up an overlay for the trial: " + overlay_error);
  }
  if (exec_error) cannot_start_ = cannot_start_words(options_.command, exec_error);
}

void Trial::become(int output, int error_pipe, pid_t parent) {
  setsid();
  reset_signals();
  int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (null > STDERR_FILENO) close(null);
  if (overlay_ && !overlay_->enter().empty()) _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the overlay: a new user namespace clears it
  if (getppid() != parent) _exit(126);
  for (const auto& [name, value] : options_.environment) setenv(name.c_str(), value.c_str(), 1);
  const int error = execute(options_.command);
  const ssize_t written = write(error_pipe, &error, sizeof error);
  _exit(written == sizeof error ? exit_code_of_error(error) : 126);
}

bool Trial::is_running() {
  if (code_ || pid_ <= 0) return false;
  int status = 0;
  pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) code_ = exit_code_of(status);
  if (reaped < 0 && errno == ECHILD) code_ = 0;  // the caller ignores SIGCHLD: the kernel keeps no status
  return !code_;
}

// The command and what is left of its process group: in `sh -c "python train.py; ..."` the shell may end
// before Python has saved its checkpoint. Ranks and daemons in other sessions are killed afterwards.
bool Trial::has_ended() {
  if (is_running()) return false;
  while (waitpid(-pid_, nullptr, WNOHANG) > 0) {
  }
  return kill(-pid_, 0) != 0;
}

bool Trial::is_over_within(milliseconds time) {
  const auto deadline = steady_clock::now() + time;
  while (!has_ended()) {
    if (steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

// A process may start another while we look, so until none is left.
void Trial::kill_all() {
  const auto deadline = steady_clock::now() + kKillGrace;
  for (;;) {
    std::set<pid_t> alive = descendants(other_children_);
    for (pid_t pid : alive) {
      kill(pid, SIGKILL);
      if (pid == pid_)
        is_running();
      else
        waitpid(pid, nullptr, WNOHANG);  // an orphan that came to us; fails for others
    }
    left_.assign(alive.begin(), alive.end());
    if (alive.empty() || steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(kPoll);
  }
}

void Trial::end() {
  if (is_ended_ || pid_ <= 0) return;
  is_ended_ = true;
  bool is_over = !is_running();
  auto within = [&](milliseconds time, EndedBy by) {
    ended_by_ = by;
    is_over = is_over_within(time);
  };
  if (!is_over && !options_.interrupt_file.empty()) {
    int fd = open(options_.interrupt_file.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd), within(options_.grace.step_boundary, EndedBy::kStepBoundary);
  }
  if (!is_over) kill(-pid_, SIGINT), within(options_.grace.interrupt, EndedBy::kInterrupt);
  if (!is_over) kill(-pid_, SIGTERM), within(options_.grace.terminate, EndedBy::kTerminate);
  if (!is_over) ended_by_ = EndedBy::kKill;
  kill_all();
}

std::string Trial::remove_overlay() {
  return overlay_ ? overlay_->remove() : "";
}

}  // namespace gpuwatch::trial
