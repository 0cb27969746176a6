// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "analyzer/cli/analyze.h"
#include "analyzer/cli/paths.h"
#include "analyzer/cli/terminal.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/trial/applicable.h"
#include "analyzer/trial/start_command.h"

namespace gpuwatch::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kForwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

std::string run_directory(const RunOptions& options) {
  if (!options.out.empty()) return fs::absolute(options.out).string();
  if (const char* set = std::getenv("GPUWATCH_OUT"); set && *set) return fs::absolute(set).string();
  std::time_t now = std::time(nullptr);
  std::string name = fmt::format("gpuwatch-{}-{:%Y%m%d-%H%M%S}-{}", script_name(options.command),
                                 fmt::localtime(now), getpid());
  return fs::absolute(name).string();
}

[[noreturn]] void become(const RunOptions& options, const std::string& preload, const std::string& out,
                         const sigset_t& mask) {
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("GPUWATCH_OUT", out.c_str(), 1);
  if (!options.apply.empty()) setenv("GPUWATCH_APPLY", options.apply.c_str(), 1);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  _exit(trial::exit_code_of_error(trial::execute(options.command)));
}

// A signal from the terminal reached the command as well; one that was sent to us alone did not.
bool reached_us_alone(const siginfo_t& signal) {
  return signal.si_code == SI_USER || signal.si_code == SI_QUEUE;
}

int wait_for(pid_t child, const sigset_t& signals) {
  for (;;) {
    siginfo_t signal;
    int number = sigwaitinfo(&signals, &signal);
    if (number < 0) continue;
    if (number != SIGCHLD) {
      if (reached_us_alone(signal)) kill(child, number);
      continue;
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) == child) {
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
      // Stopped together (Ctrl-Z) so that the shell gets its terminal back; continued by SIGCONT above. Who
      // sends SIGSTOP to the job alone continues the job alone, too.
      const bool is_by_terminal = WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP;
      if (is_by_terminal) kill(getpid(), SIGSTOP), kill(child, SIGCONT);
    }
  }
}

bool holds_traces(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    if (entry.path().extension() == ".gwt") return true;
  return false;
}

void print_report(const std::string& directory, int code) {
  if (!holds_traces(directory)) {
    fmt::print(stderr,
               "gpuwatch: nothing to report: the command {}used no CUDA, NCCL, DataLoader or optimizer that "
               "gpuwatch recognizes\n",
               code == 0 ? "" : fmt::format("ended with exit code {} and ", code));
    return;
  }
  try {
    AnalyzeOptions options;
    options.traces = {directory};
    std::string report = analyze(options, text_style(STDERR_FILENO));
    fmt::print(stderr, "\n{}traces     {}\n", report, io::printable(directory));
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpuwatch: no report: {}\n", error.what());
  }
}

}  // namespace

std::string script_name(const std::vector<std::string>& command) {
  std::string chosen = command.empty() ? "run" : command[0];
  bool is_python = fs::path(chosen).filename().string().starts_with("python");
  for (size_t i = 1; i < command.size() && is_python; ++i) {
    bool is_module = command[i] == "-m" && i + 1 < command.size();
    if (!is_module && (command[i].starts_with('-') || !command[i].ends_with(".py"))) continue;
    chosen = is_module ? command[i + 1] : command[i];
    break;
  }
  fs::path path(chosen);
  std::string name = path.extension() == ".py" ? path.stem().string() : path.filename().string();
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("._-", c)) c = '_';
  return name.empty() ? "run" : name.substr(0, 64);
}

int run(const RunOptions& options) {
  if (!options.apply.empty()) trial::check_settings(options.apply);
  const std::string preload = preload_value();
  std::string out = run_directory(options);
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (int number : kForwarded) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, &before);
  pid_t child = fork();
  if (child < 0) throw io::UserError(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) become(options, preload, out, before);
  int code = wait_for(child, signals);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!options.no_report) print_report(out, code);
  return code;
}

}  // namespace gpuwatch::cli
