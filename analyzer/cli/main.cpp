// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "analyzer/cli/analyze.h"
#include "analyzer/cli/command_table.h"
#include "analyzer/cli/completion.h"
#include "analyzer/cli/diff.h"
#include "analyzer/cli/doctor.h"
#include "analyzer/cli/manual.h"
#include "analyzer/cli/paths.h"
#include "analyzer/cli/predict.h"
#include "analyzer/cli/preload_link.h"
#include "analyzer/cli/run.h"
#include "analyzer/cli/terminal.h"
#include "analyzer/cli/try.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"
#include "analyzer/report/report.h"
#include "analyzer/trial/applicable.h"

namespace {

using namespace gpuwatch;

constexpr int kThresholdExceeded = 1, kUsageError = 2;

int fail(const std::string& sentence) {
  fmt::print(stderr, "gpuwatch: {}\n", io::printable(sentence, 1000));
  return kUsageError;
}

int print(const std::string& text) {
  bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written ? 0 : fail("cannot write the output; is the disk full?");
}

struct Commands {
  CLI::App app{"Says where each second of a training job went, what to change and what it will gain."};
  cli::AnalyzeOptions analyze;
  cli::RunOptions run;
  cli::PredictOptions predict;
  cli::TryOptions trial;
  cli::DiffOptions diff;
  CLI::App *analyze_command, *predict_command, *run_command, *try_command, *lib_command, *doctor_command;
  CLI::App *explain_command, *findings_command, *diff_command, *completion_command, *manual_command;
  std::string explained_id, shell;
  bool is_markdown = false, lists_ids = false;

  Commands() {
    app.set_version_flag("--version", "gpuwatch " GPUWATCH_VERSION);
    app.require_subcommand(1);
    app.failure_message([](const CLI::App*, const CLI::Error& error) {
      return fmt::format("gpuwatch: {}; see gpuwatch --help\n", io::printable(error.what(), 1000));
    });
    run_command = app.add_subcommand("run", "run a command under gpuwatch and print one report when it ends");
    run_command->add_option("-o,--out", run.out,
                            "run directory (default: GPUWATCH_OUT, else ./gpuwatch-<script>-<run id>)");
    run_command->add_flag("--no-report", run.no_report, "record only");
    run_command->add_option("--apply", run.apply,
                            "settings to apply to the job without an edit of its code: num_workers=4,...");
    run_command->footer(trial::applicable_help());
    run_command->add_option("command", run.command, "the command and its arguments")->required();

    add_try();

    analyze_command = app.add_subcommand("analyze", "report on a recorded run");
    analyze_command->add_option("trace", analyze.traces,
                                "run directories, trace files, traces that torch.profiler exported (.json, "
                                ".json.gz) or folders of them "
                                "(default: the newest run here)");
    CLI::Option* const json =
        analyze_command->add_flag("--json", analyze.json, "print JSON (schema gpuwatch.report.v1)");
    analyze_command
        ->add_flag("--step-times", analyze.has_step_times,
                   "in the JSON, also when each recorded step began, how long it took and its causes")
        ->needs(json);
    analyze_command->add_option("--rank", analyze.rank, "only this rank");
    analyze_command->add_option("--steps", analyze.steps,
                                "only recorded steps A to B-1, counted from 0: A:B");
    analyze_command->add_flag("-v,--verbose", analyze.is_verbose,
                              "show every limit of what could be seen, and every thread of a killed job");
    analyze_command->add_flag(
        "--kernels", analyze.shows_kernels,
        "show what kind of work the GPU did, the kernels that took most of its time, and "
        "how far the host was ahead");
    analyze_command->add_option("--perfetto", analyze.perfetto,
                                "also write the timeline to this file, for https://ui.perfetto.dev");
    CLI::Option* const html = analyze_command->add_option(
        "--html", analyze.html,
        "also write the report as one HTML file, with charts and a timeline, to look at and to pass on");
    analyze_command
        ->add_flag("--full-paths", analyze.has_full_paths,
                   "in the HTML file, keep the folders of files and the user's name")
        ->needs(html);

    predict_command = app.add_subcommand("predict", "predict the step time with another loader setting");
    predict_command->add_option("trace", predict.traces,
                                "run directory or trace files (default: the newest run here)");
    predict_command->add_option("--num-workers", predict.num_workers, "loader workers")
        ->check(CLI::Range(0, 1024));
    predict_command
        ->add_option("--prefetch-factor", predict.prefetch_factor, "batches loaded in advance by each worker")
        ->check(CLI::Range(1, 1024));
    add_switch("persistent-workers", predict.persistent_workers, "keep workers alive between epochs");
    add_switch("in-order", predict.in_order, "deliver batches in the order of the sampler");
    add_switch("pin-memory", predict.pin_memory, "copy each batch to pinned memory");
    predict_command
        ->add_option("--io-factor", predict.io_factor, "time to read a batch, times this (0.5: half)")
        ->check(CLI::Range(0.0, 1000.0));
    predict_command
        ->add_option("--cpu-factor", predict.cpu_factor,
                     "time of a batch's transforms, times this (0.5: half)")
        ->check(CLI::Range(0.0, 1000.0));
    predict_command->add_option("--cores", predict.cores, "CPU cores that the job gets")
        ->check(CLI::Range(0.1, 4096.0));
    predict_command->add_option("--rank", predict.rank,
                                "of this rank (default: the one that the others wait for, else the first)");
    predict_command->add_flag("--json", predict.json, "print JSON (schema gpuwatch.prediction.v1)");

    add_diff();

    lib_command = app.add_subcommand("lib", "print the library's path, for LD_PRELOAD=$(gpuwatch lib)");
    doctor_command = app.add_subcommand("doctor", "say what gpuwatch can see on this machine, and why");
    explain_command = app.add_subcommand("explain", "explain a finding: how it is recognized, what to do");
    explain_command->add_option("id", explained_id, "the finding's id, as gpuwatch findings lists them")
        ->required();
    findings_command = app.add_subcommand("findings", "list all findings");
    findings_command->add_flag("--markdown", is_markdown, "print them all in full, as docs/findings.md");
    findings_command->add_flag("--ids", lists_ids, "print their ids only, one a line");
    add_hidden();
  }

  // For packages: an empty group hides a command from --help, completion and manual.
  void add_hidden() {
    completion_command = app.add_subcommand("completion", "print the shell's completion script")->group("");
    completion_command->add_option("shell", shell, "bash, zsh or fish")->required();
    manual_command = app.add_subcommand("man", "print the manual page")->group("");
  }

  void add_try() {
    try_command = app.add_subcommand(
        "try", "run a command as it is, then with the first finding's setting applied, and compare");
    try_command->add_option("-o,--out", trial.out,
                            "folder for the trials' traces (default: ./gpuwatch-try-<script>-<date>-<pid>)");
    try_command->add_option("--steps", trial.steps,
                            "steps of each trial (default: until its report is stable)");
    try_command->add_option("--seconds", trial.seconds, "longest time of a trial")
        ->check(CLI::Range(5.0, 86400.0))
        ->capture_default_str();
    try_command->add_option("--changes", trial.most_changes, "settings to try, at most")
        ->check(CLI::Range(0, 32))
        ->capture_default_str();
    try_command->add_flag("--in-place", trial.is_in_place,
                          "let the trials write to the real files; without it, what they write is dropped");
    try_command->add_flag("--yes", trial.is_sure, "ask no question");
    try_command->add_flag("--json", trial.json, "print JSON (schema gpuwatch.try.v1)");
    try_command->add_option("command", trial.command, "the command and its arguments")->required();
  }

  void add_diff() {
    diff_command = app.add_subcommand("diff", "compare a run with one or more others of the same job");
    diff_command->add_option("run", diff.runs, "run directories or trace files: BEFORE AFTER [AFTER...]")
        ->required();
    diff_command->add_flag("--json", diff.json, "print JSON (schema gpuwatch.diff.v1)");
    diff_command->add_option("--fail-on", diff.fail_on,
                             "end with exit code 1 where this got worse by more: step=5 (percent longer), "
                             "data-loading=3 (points of its share), ...");
  }

  // --name and --no-name; neither leaves the value unset.
  void add_switch(const std::string& name, std::optional<bool>& value, const std::string& words) {
    predict_command->add_flag_callback(
        "--" + name, [&value] { value = true; }, words);
    predict_command->add_flag_callback(
        "--no-" + name, [&value] { value = false; }, "the opposite");
  }

  int execute() {
    if (*run_command) return cli::run(run);
    if (*try_command) return cli::try_settings(trial);
    if (*analyze_command) return print(cli::analyze(analyze, cli::text_style(STDOUT_FILENO)));
    if (*predict_command) return print(cli::predict(predict));
    if (*diff_command) return compare_runs();
    if (*lib_command) return print(cli::preloadable_path(cli::library()) + "\n");
    if (*doctor_command) return print(cli::doctor());
    if (*explain_command) return explain();
    if (*completion_command) return print(cli::completion(cli::command_table(app), shell));
    if (*manual_command) return print(cli::manual(cli::command_table(app), GPUWATCH_VERSION));
    if (lists_ids) return print(report::finding_ids());
    return print(is_markdown ? report::findings_markdown()
                             : report::findings_list(cli::text_style(STDOUT_FILENO)));
  }

  int compare_runs() {
    const cli::DiffResult result = cli::diff(diff, cli::text_style(STDOUT_FILENO));
    if (const int error = print(result.output)) return error;
    for (const std::string& sentence : result.exceeded) fmt::print(stderr, "gpuwatch: {}\n", sentence);
    return result.exceeded.empty() ? 0 : kThresholdExceeded;
  }

  int explain() {
    const std::string words = report::explanation(explained_id, cli::text_style(STDOUT_FILENO));
    if (words.empty())
      throw io::UserError(fmt::format("there is no finding {}; gpuwatch findings lists them all",
                                      io::printable(explained_id)));
    return print(words);
  }
};

// Options of `run` and `try` that take the next word as their value.
bool takes_value(std::string_view option) {
  constexpr std::string_view kOptions[] = {"-o", "--out", "--apply", "--steps", "--seconds", "--changes"};
  return std::ranges::find(kOptions, option) != std::end(kOptions);
}

// `run` and `try` end gpuwatch's own options at the first word that is not one, as env and nohup do: what
// follows, dashes included, is the command's.
std::vector<std::string> take_command(int& argc, char** argv) {
  std::vector<std::string> command;
  if (argc < 3 || (std::string_view(argv[1]) != "run" && std::string_view(argv[1]) != "try")) return command;
  int at = 2;
  while (at < argc && argv[at][0] == '-' && std::string_view(argv[at]) != "--")
    at += takes_value(argv[at]) ? 2 : 1;
  int options_end = std::min(at, argc);
  if (at < argc && std::string_view(argv[at]) == "--") ++at;
  for (; at < argc; ++at) command.push_back(argv[at]);
  argc = options_end;
  return command;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Commands commands;
    std::vector<std::string> command = take_command(argc, argv);
    if (!command.empty())
      for (CLI::App* app : {commands.run_command, commands.try_command})
        app->get_option("command")->required(false);
    try {
      commands.app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return commands.app.exit(error) == 0 ? 0 : kUsageError;
    }
    commands.run.command = commands.trial.command = std::move(command);
    return commands.execute();
  } catch (const io::UserError& error) {
    return fail(error.what());
  } catch (const std::bad_alloc&) {
    return fail("not enough memory for this trace; analyze fewer files, or one rank's");
  } catch (const std::exception& error) {
    return fail(fmt::format("internal error, please report it: {}", error.what()));
  }
}
