// SPDX-License-Identifier: Apache-2.0
// Trials of real processes: how they end, and that no process and no file of them is left.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "analyzer/trial/trial.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// What ends a job does so long before this, on a busy machine, too.
constexpr milliseconds kPatient{30'000}, kShort{300};

class TrialTest : public test::FileTest {
 protected:
  TrialOptions options(std::vector<std::string> command) const {
    TrialOptions options;
    options.command = std::move(command);
    options.output = directory_ / "output";
    options.is_in_place = true;
    options.grace = {kPatient, kPatient, kPatient};
    return options;
  }
  // For a job that ignores what comes first: waiting for it is in vain.
  static TrialOptions impatient(TrialOptions options, bool also_terminate = false) {
    options.grace.interrupt = kShort;
    if (also_terminate) options.grace.terminate = kShort;
    return options;
  }
  TrialOptions shell(const std::string& script) const { return options({"/bin/sh", "-c", script}); }
  TrialOptions python(const std::string& script) const { return options({"python3", "-u", "-c", script}); }

  bool is_soon(const std::function<bool()>& condition) const {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(10));
    return condition();
  }
  bool prints(const std::string& text) const {
    return is_soon([&] { return content(directory_ / "output").find(text) != std::string::npos; });
  }
  // Processes started by this test have the folder in their environment or command line.
  int processes_left() const {
    int left = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      if (std::atoi(entry.path().filename().c_str()) <= 0) continue;
      left +=
          content(entry.path() / "environ").find("TRIAL_TEST=" + directory_.string()) != std::string::npos;
    }
    return left;
  }
  TrialOptions marked(TrialOptions options) const {
    options.environment.emplace_back("TRIAL_TEST", directory_.string());
    return options;
  }
};

TEST_F(TrialTest, EndsByItself) {
  TrialOptions chosen = shell("echo \"$COLOR\"; echo error >&2; cat; exit 7");
  chosen.environment = {{"COLOR", "blue"}};
  Trial trial(chosen);
  EXPECT_TRUE(is_soon([&] { return !trial.is_running(); }));
  trial.end();
  EXPECT_EQ(trial.exit_code(), 7);
  EXPECT_EQ(trial.ended_by(), EndedBy::kItself);
  EXPECT_EQ(content(chosen.output), "blue\nerror\n");
  EXPECT_EQ(fs::status(chosen.output).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(TrialTest, HasTheExitCodeOfASignal) {
  Trial trial(shell("kill -TERM $$"));
  EXPECT_TRUE(is_soon([&] { return !trial.is_running(); }));
  EXPECT_EQ(trial.exit_code(), 128 + SIGTERM);
}

TEST_F(TrialTest, SaysThatTheCommandCannotBeStarted) {
  Trial missing(options({"/nonexistent/python"}));
  EXPECT_TRUE(is_soon([&] { return !missing.is_running(); }));
  EXPECT_EQ(missing.exit_code(), 127);
  EXPECT_EQ(missing.cannot_start(), "cannot start /nonexistent/python: No such file or directory");
  EXPECT_TRUE(prints("gpuwatch: cannot start /nonexistent/python"));
  missing.end();
  Trial forbidden(options({directory_.string()}));
  EXPECT_TRUE(is_soon([&] { return !forbidden.is_running(); }));
  EXPECT_EQ(forbidden.exit_code(), 126);
}

TEST_F(TrialTest, DoesNotFollowALinkAtTheOutput) {
  fs::create_symlink(save("precious", "precious"), directory_ / "output");
  EXPECT_THROW(Trial trial(shell("echo 1")), io::UserError);
  EXPECT_EQ(content(directory_ / "precious"), "precious");
}

TEST_F(TrialTest, EndsAtAStepBoundary) {
  TrialOptions chosen =
      shell("echo ready; while [ ! -e \"$STOP\" ]; do sleep 0.05; done; echo saved; exit 3");
  chosen.interrupt_file = directory_ / "stop";
  chosen.environment = {{"STOP", chosen.interrupt_file}};
  Trial trial(chosen);
  ASSERT_TRUE(prints("ready"));
  trial.end();
  EXPECT_EQ(trial.ended_by(), EndedBy::kStepBoundary);
  EXPECT_EQ(trial.exit_code(), 3);
  EXPECT_TRUE(prints("saved"));
}

TEST_F(TrialTest, InterruptsAsCtrlCDoes) {
  TrialOptions chosen = python(
      "import time\ntry:\n  print('ready'); time.sleep(60)\n"
      "except KeyboardInterrupt:\n  time.sleep(0.3); open('" +
      (directory_ / "last.pt").string() + "', 'w').write('saved')");
  signal(SIGINT, SIG_IGN);  // as in a background job of a shell
  Trial trial(chosen);
  signal(SIGINT, SIG_DFL);
  ASSERT_TRUE(prints("ready"));
  trial.end();
  EXPECT_EQ(trial.ended_by(), EndedBy::kInterrupt);
  EXPECT_EQ(content(directory_ / "last.pt"), "saved");
}

TEST_F(TrialTest, WaitsForTheProgramThatAShellRuns) {
  TrialOptions chosen = shell(
      "python3 -u -c \"import time\ntry:\n  print('ready'); time.sleep(60)\n"
      "except KeyboardInterrupt:\n  time.sleep(0.5); print('saved')\" & trap 'exit 4' INT; wait");
  // A shell's background job ignores SIGINT unless Python is told otherwise.
  chosen.command[2].replace(chosen.command[2].find("import time"), 11,
                            "import time, signal; signal.signal(2, signal.default_int_handler)");
  Trial trial(chosen);
  ASSERT_TRUE(prints("ready"));
  trial.end();
  EXPECT_EQ(trial.exit_code(), 4);
  EXPECT_TRUE(prints("saved"));
}

TEST_F(TrialTest, TerminatesWhatIgnoresTheInterrupt) {
  Trial trial(impatient(shell("trap '' INT; echo ready; exec sleep 60")));
  ASSERT_TRUE(prints("ready"));
  trial.end();
  EXPECT_EQ(trial.ended_by(), EndedBy::kTerminate);
  EXPECT_EQ(trial.exit_code(), 128 + SIGTERM);
}

TEST_F(TrialTest, KillsWhatIgnoresEverythingElse) {
  Trial trial(impatient(marked(shell("trap '' INT TERM; echo ready; while :; do sleep 1; done")), true));
  ASSERT_TRUE(prints("ready"));
  trial.end();
  EXPECT_EQ(trial.ended_by(), EndedBy::kKill);
  EXPECT_EQ(trial.exit_code(), 128 + SIGKILL);
  EXPECT_EQ(processes_left(), 0);
}

constexpr const char* kDaemon =
    "import os, signal, time\n"
    "if os.fork() == 0:\n"
    "  os.setsid()\n"
    "  if os.fork() == 0:\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN); print('daemon'); time.sleep(60)\n"
    "  os._exit(0)\n";

TEST_F(TrialTest, KillsDaemonsInOtherSessions) {
  Trial trial(marked(python(std::string(kDaemon) + "time.sleep(60)")));
  ASSERT_TRUE(prints("daemon"));
  EXPECT_EQ(processes_left(), 2);
  trial.end();
  EXPECT_EQ(processes_left(), 0);
  EXPECT_TRUE(trial.left().empty());
}

TEST_F(TrialTest, KillsDaemonsOfAJobThatHasEnded) {
  Trial trial(marked(python(kDaemon)));
  ASSERT_TRUE(prints("daemon"));
  EXPECT_TRUE(is_soon([&] { return !trial.is_running(); }));
  trial.end();
  EXPECT_EQ(trial.ended_by(), EndedBy::kItself);
  EXPECT_EQ(processes_left(), 0);
}

TEST_F(TrialTest, LeavesOtherChildrenAlone) {
  pid_t other = fork();
  if (other == 0) execl("/bin/sleep", "sleep", "60", nullptr);
  { Trial trial(shell("sleep 60")); }
  EXPECT_EQ(waitpid(other, nullptr, WNOHANG), 0);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

TEST_F(TrialTest, EndsWithItsObject) {
  { Trial trial(marked(shell("sleep 60"))); }
  EXPECT_EQ(processes_left(), 0);
}

TEST_F(TrialTest, DropsItsWritesUnlessInPlace) {
  if (std::optional<std::string> reason = cannot_overlay())
    GTEST_SKIP() << "no overlay is possible: " << *reason;
  std::string checkpoint = save("trained for a week", "last.pt");
  fs::create_directory(directory_ / "kept");
  TrialOptions chosen = marked(shell("echo new > " + checkpoint + "; echo 1 > " + directory_.string() +
                                     "/kept/trace; echo ready; sleep 60"));
  chosen.is_in_place = false;
  chosen.kept = {directory_ / "kept"};
  Trial trial(chosen);
  ASSERT_TRUE(prints("ready"));
  EXPECT_TRUE(fs::exists(directory_ / "kept/trace"));
  trial.end();
  EXPECT_EQ(trial.overlay()->what_was_written().largest, std::vector{checkpoint});
  EXPECT_EQ(trial.remove_overlay(), "");
  EXPECT_EQ(content(checkpoint), "trained for a week");
  EXPECT_EQ(processes_left(), 0);
}

}  // namespace
}  // namespace gpuwatch::trial
