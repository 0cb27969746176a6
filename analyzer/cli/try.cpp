// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/try.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "analyzer/advise/rule.h"
#include "analyzer/cli/paths.h"
#include "analyzer/cli/run.h"
#include "analyzer/cli/terminal.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/predict/prediction.h"
#include "analyzer/trial/kept_predictions.h"
#include "analyzer/trial/neighbors.h"
#include "analyzer/trial/overlay.h"
#include "analyzer/trial/own_clock.h"
#include "analyzer/trial/trial.h"
#include "analyzer/trial/trial_result.h"
#include "analyzer/trial/try_table.h"

namespace gpuwatch::cli {
namespace {

using namespace trial;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

volatile sig_atomic_t g_is_interrupted = 0;

// Ctrl-C ends the trial under way; what is known by then is told.
void on_interrupt(int) {
  g_is_interrupted = 1;
}

// Without network, and without a trace in the user's project there.
constexpr std::pair<const char*, const char*> kLoggersOffline[] = {{"WANDB_MODE", "offline"},
                                                                   {"HF_HUB_OFFLINE", "1"},
                                                                   {"NEPTUNE_MODE", "offline"},
                                                                   {"COMET_START_MODE", "offline"}};

std::string try_directory(const TryOptions& options) {
  if (!options.out.empty()) return fs::absolute(options.out).string();
  const std::time_t now = std::time(nullptr);
  return fs::absolute(fmt::format("gpuwatch-try-{}-{:%Y%m%d-%H%M%S}-{}", script_name(options.command),
                                  fmt::localtime(now), getpid()))
      .string();
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw io::UserError(fmt::format("cannot create {}: {}", io::printable(path.string()), error.message()));
}

// Traces of an earlier run beside ours would be read with them.
void make_empty_directory(const std::string& path) {
  make_directory(path);
  std::error_code error;
  if (!fs::is_empty(path, error) || error)
    throw io::UserError(fmt::format("{} is not empty; choose another folder with -o", io::printable(path)));
}

// Of a long one the end.
std::string output_of(const std::string& path) {
  constexpr size_t kMostBytes = 16 << 20;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff bytes = std::max<std::streamoff>(file.tellg(), 0);
  file.seekg(std::max<std::streamoff>(bytes - std::streamoff(kMostBytes), 0));
  std::string text(size_t(std::min<std::streamoff>(bytes, kMostBytes)), '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const size_t begin = text.find_last_of("\r\n", end);
  return io::printable(text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin), 160);
}

// "num_workers": the first of its settings names the proposal.
std::string setting_of(const Proposal& proposal) {
  return proposal.settings.front().substr(0, proposal.settings.front().find('='));
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Less than this changes a step by less than two runs differ anyway.
bool is_disturbed(const TryRow& row) {
  constexpr double kBusy = 0.2;  // cores
  return row.neighbor_cores >= kBusy;
}

// Two reports of one trial that agree: the second was made after half as much time again.
class Stability {
 public:
  bool is_stable(const TrialResult& now) {
    const std::string proposed = now.proposals.empty() ? "" : now.proposals.front().request();
    const bool agrees = before_ms_ > 0 && now.recorded_steps >= predict::kLeastReplaySteps &&
                        proposed == proposed_ &&
                        std::abs(now.step_ms / before_ms_ - 1) < advise::kLeastSpeedup - 1;
    before_ms_ = now.step_ms;
    proposed_ = proposed;
    return agrees;
  }

 private:
  double before_ms_ = 0;
  std::string proposed_;
};

class Tries {
 public:
  explicit Tries(const TryOptions& options) : options_(options), directory_(try_directory(options)) {
    outcome_.command = options.command;
  }

  TryOutcome run() {
    make_empty_directory(directory_);
    say(fmt::format("1. as it is, at most {:.0f} s", options_.seconds));
    outcome_.rows.push_back(trial(std::nullopt));
    const std::string earlier = came_true_words(kept_predictions());
    if (!outcome_.rows[0].problem.empty())
      note(
          "the job ran with WANDB_MODE, HF_HUB_OFFLINE, NEPTUNE_MODE and COMET_START_MODE set to offline "
          "where they were not set");
    if (!outcome_.rows[0].result) return std::move(outcome_);
    for (size_t changes = 0; changes < options_.most_changes && !g_is_interrupted; ++changes)
      if (!try_next()) break;
    if (std::ranges::any_of(outcome_.rows, is_disturbed))
      note("other programs took CPU time meanwhile: measure again on a quiet machine");
    note(earlier);
    return std::move(outcome_);
  }

 private:
  // The next proposal of the best run, applied on top of what gained. False where there is none.
  bool try_next() {
    const TrialResult& best = *outcome_.rows[best_].result;
    const auto is_new = [&](const Proposal& proposal) {
      return proposal.expected_speedup() >= advise::kLeastSpeedup &&
             std::ranges::find(tried_, proposal.request()) == tried_.end();
    };
    const auto next = std::ranges::find_if(best.proposals, is_new);
    if (next == best.proposals.end()) return false;
    Proposal proposal = *next;
    tried_.push_back(proposal.request());
    if (proposal.prediction) {
      const auto earlier = of_kind(kept_predictions(), setting_of(proposal), !best.has_device);
      proposal.prediction = widened(*proposal.prediction, earlier);
    }
    say(fmt::format("{}. {}", outcome_.rows.size() + 1, proposal.words()));
    try {
      outcome_.rows.push_back(trial(std::move(proposal)));
    } catch (const io::UserError& error) {  // a full disk, say: what was measured before is told
      note(error.what());
      return false;
    }
    judge(outcome_.rows.back());
    return true;
  }

  void judge(TryRow& row) {
    if (!row.result || row.compared_ms <= 0) return;
    const bool fails = !row.problem.empty() && outcome_.rows[0].problem.empty();
    // Less disappears in the variation from run to run.
    row.is_kept = !fails && row.speedup() >= advise::kLeastSpeedup;
    if (!fails) remember(row);
    if (!row.is_kept) return;
    best_ = outcome_.rows.size() - 1;
    kept_ = request_with(*row.change);
  }

  std::string request_with(const Proposal& proposal) const {
    return kept_.empty() ? proposal.request() : proposal.request() + "," + kept_;
  }

  TrialOptions options_of(const TryRow& row) const {
    TrialOptions trial;
    trial.command = options_.command;
    trial.output = row.output;
    trial.kept = {directory_};
    trial.is_in_place = options_.is_in_place;
    trial.interrupt_file = row.directory + "/interrupt";
    trial.environment = {{"LD_PRELOAD", preload_value()},
                         {"GPUWATCH_OUT", row.directory},
                         {"GPUWATCH_INTERRUPT", trial.interrupt_file},
                         {"GPUWATCH_TRIAL", "1"},
                         {"GPUWATCH_DISABLE", "0"},
                         {"GPUWATCH_APPLY", row.change ? request_with(*row.change) : ""}};
    trial.grace = grace();
    for (const auto& [name, value] : kLoggersOffline)
      if (!std::getenv(name)) trial.environment.emplace_back(name, value);
    return trial;
  }

  // In an overlay nothing that the job saves at its end is kept, so it need not be waited for longer than a
  // step.
  TrialGrace grace() const {
    constexpr double kSteps = 3;
    if (options_.is_in_place) return {};
    const double step_ms =
        outcome_.rows.empty() || !outcome_.rows[0].result ? 0 : outcome_.rows[0].result->step_ms;
    return {.step_boundary = std::chrono::seconds(8) + std::chrono::milliseconds(long(kSteps * step_ms)),
            .interrupt = std::chrono::seconds(3),
            .terminate = std::chrono::seconds(2)};
  }

  TryRow trial(std::optional<Proposal> change) {
    TryRow row;
    row.directory = fmt::format("{}/{}", directory_, outcome_.rows.size() + 1);
    row.output = row.directory + ".txt";
    row.change = std::move(change);
    if (row.change) row.compared_ms = outcome_.rows[best_].result->step_ms;
    make_directory(row.directory);
    const Clock::time_point start = Clock::now();
    const Neighbors neighbors;
    Trial process(options_of(row));
    const bool is_ended_by_us = process.cannot_start().empty() && watch(process, row.directory, start);
    process.end();
    row.neighbor_cores = neighbors.cores();
    row.result = trial::trial_result(row.directory);
    row.own_clock = own_clock(output_of(row.output));
    note_problem(row, process, is_ended_by_us, seconds_since(start));
    note_ending(process);
    return row;
  }

  static void note_problem(TryRow& row, const Trial& process, bool is_ended_by_us, double seconds) {
    if (!process.cannot_start().empty())
      row.problem = process.cannot_start();
    else if (!is_ended_by_us && process.exit_code().value_or(0) != 0)
      row.problem = fmt::format("ended with exit code {} after {:.0f} s: {}", *process.exit_code(), seconds,
                                last_line(output_of(row.output)));
    else if (!row.result)
      row.problem = fmt::format("no training step was seen in {:.0f} s", seconds);
    if (row.change && row.result && !is_applied(*row.change, *row.result)) not_applied(row);
  }

  static void not_applied(TryRow& row) {
    row.problem = row.result->not_applied.empty()
                      ? "not applied: PyTorch's DataLoader is not constructed there"
                      : row.result->not_applied.front();
    row.result.reset();
  }

  // Until the trial has shown enough: two reports that agree, later as many steps, for some seconds in any
  // case. False where the job ended by itself. A look costs CPU time of the job's machine, so there are few.
  bool watch(Trial& process, const std::string& traces, Clock::time_point start) {
    constexpr double kGrowth = 1.5, kMostGrowth = 3, kFirstLookForSteps_s = 3, kFirstLook_s = 8;
    const size_t wanted = outcome_.rows.empty() ? options_.steps : outcome_.rows[0].result->steps;
    Stability stability;
    for (double next_look = options_.steps > 0 ? kFirstLookForSteps_s : kFirstLook_s; !g_is_interrupted;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (!process.is_running()) return false;
      const double seconds = seconds_since(start);
      if (seconds >= options_.seconds) return true;
      if (seconds < next_look) continue;
      next_look = seconds * kGrowth;
      const std::optional<TrialResult> result = trial_so_far(traces);
      if (!result) continue;
      say(fmt::format("   {:.0f} s, {} steps, {:.3g} ms a step", seconds, result->steps, result->step_ms));
      if (wanted > 0 ? result->steps >= wanted : stability.is_stable(*result)) return true;
      if (wanted > 0)
        next_look = seconds + std::clamp(double(wanted - result->steps) * result->step_ms / 1e3, 0.5,
                                         kMostGrowth * seconds);
    }
    return true;
  }

  void note_ending(Trial& process) {
    if (process.overlay()) {
      note(written_words(process.overlay()->what_was_written()));
      if (const uint64_t bytes = process.overlay()->memory_bytes())
        note(fmt::format("what the job writes was held in memory, at most {:.1f} GB", double(bytes) / 1e9));
      for (const std::string& path : process.overlay()->read_only())
        if (path != "/") note(fmt::format("{} was read-only for the trial", path));
      note(process.remove_overlay());
    }
    if (process.ended_by() == EndedBy::kKill)
      note("the job ended neither by Ctrl-C nor by SIGTERM: it was killed");
    if (!process.left().empty())
      note(fmt::format("{} processes of the trial do not end, not even by SIGKILL: the first is {}",
                       process.left().size(), process.left().front()));
  }

  void note(const std::string& words) {
    if (!words.empty() && std::ranges::find(outcome_.notes, words) == outcome_.notes.end())
      outcome_.notes.push_back(words);
  }

  void remember(const TryRow& row) const {
    const Proposal& proposal = *row.change;
    if (!proposal.prediction) return;
    const predict::Estimate& gain = proposal.prediction->speedup;
    KeptPrediction kept;
    kept.finding = proposal.finding;
    kept.setting = setting_of(proposal);
    kept.value = proposal.settings[0].substr(kept.setting.size() + 1);
    kept.is_cpu_job = !row.result->has_device;
    kept.before_ms = row.compared_ms;
    kept.predicted_ms = {row.compared_ms / gain.high, row.compared_ms / gain.expected,
                         row.compared_ms / gain.low};
    kept.achieved_ms = row.result->step_ms;
    kept.was_disturbed = is_disturbed(row) || is_disturbed(outcome_.rows[best_]);
    keep(kept);
  }

  void say(const std::string& words) const { fmt::print(stderr, "{}\n", words); }

  const TryOptions& options_;
  std::string directory_;
  TryOutcome outcome_;
  size_t best_ = 0;                 // row
  std::string kept_;                // request of the changes that gained
  std::vector<std::string> tried_;  // requests
};

void ask_before_trials_in_place(const TryOptions& options) {
  if (options.is_sure || !isatty(STDIN_FILENO)) return;
  fmt::print(
      stderr,
      "gpuwatch: the job will run several times, and what it writes stays: checkpoints, logs and caches are "
      "overwritten. Go on? [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  if (answer != "y" && answer != "yes") throw io::UserError("nothing was run");
}

void check_overlay(const TryOptions& options) {
  if (options.is_in_place) return ask_before_trials_in_place(options);
  if (const auto why = cannot_overlay())
    throw io::UserError(
        fmt::format("the trials' writes cannot be kept apart from your files here: {}. Add --in-place to let "
                    "them write to the "
                    "real ones, and save checkpoints elsewhere first",
                    *why));
}

}  // namespace

int try_settings(const TryOptions& options) {
  check_overlay(options);
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  const TryOutcome outcome = Tries(options).run();
  const std::string text = options.json ? try_json(outcome) : try_text(outcome, text_style(STDOUT_FILENO));
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (g_is_interrupted) return 128 + SIGINT;
  return outcome.rows.empty() || !outcome.rows[0].result ? 1 : 0;
}

}  // namespace gpuwatch::cli
