// SPDX-License-Identifier: Apache-2.0
#include "analyzer/io/trace_set.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "analyzer/io/kineto_file.h"
#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".gwt";
constexpr std::string_view kRunPrefix = "gpuwatch-";

template <class IsWanted>
std::vector<std::string> files_in(const fs::path& directory, IsWanted is_wanted) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (is_wanted(entry->path().string()) && entry->is_regular_file(ignored)) {
      files.push_back(entry->path().lexically_normal().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> traces_in(const fs::path& directory) {
  return files_in(directory, [](const std::string& path) { return path.ends_with(kSuffix); });
}

// What tensorboard_trace_handler names its files, compressed or not.
std::vector<std::string> profiles_in(const fs::path& directory) {
  return files_in(directory, [](const std::string& path) {
    return path.ends_with(".pt.trace.json") || path.ends_with(".pt.trace.json.gz");
  });
}

// Under other names; a folder of them holds nothing else that is JSON, or is named by its files.
std::vector<std::string> json_in(const fs::path& directory) {
  return files_in(directory, is_kineto_path);
}

// The run directory in `place` that was written to last; empty if there is none with a trace in it.
fs::path newest_run(const fs::path& place) {
  fs::path newest;
  fs::file_time_type newest_time{};
  std::error_code error;
  for (fs::directory_iterator entry(place, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().rfind(kRunPrefix, 0) != 0 || !entry->is_directory(ignored))
      continue;
    const auto time = fs::last_write_time(entry->path(), ignored);
    if (!newest.empty() && time <= newest_time) continue;
    if (traces_in(entry->path()).empty()) continue;
    newest = entry->path();
    newest_time = time;
  }
  return newest;
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

TraceSet newest() {
  const std::string chosen = from_environment("GPUWATCH_OUT");
  if (!chosen.empty()) {
    if (auto files = traces_in(chosen); !files.empty()) return {chosen, std::move(files), true};
  }
  if (auto files = traces_in("."); !files.empty()) return {".", std::move(files), true};
  for (const std::string& place : {std::string("."), from_environment("SLURM_TMPDIR"),
                                   from_environment("TMPDIR"), fmt::format("/tmp/gpuwatch-{}", getuid())}) {
    if (place.empty()) continue;
    const fs::path run = newest_run(place);
    if (!run.empty()) return {run.lexically_normal().string(), traces_in(run), true};
  }
  throw UserError(
      "no trace found: there is no gpuwatch-* directory here; record one with: gpuwatch run python train.py, "
      "or "
      "name a trace directory");
}

// Traces of gpuwatch, those of torch.profiler by their usual name, the newest run below, those of
// torch.profiler by any name.
void add_directory(const std::string& directory, TraceSet& set) {
  auto files = traces_in(directory);
  if (files.empty()) files = profiles_in(directory);
  const fs::path run = files.empty() ? newest_run(directory) : fs::path();
  if (!run.empty()) files = traces_in(run);
  if (files.empty()) files = json_in(directory);
  if (files.empty())
    throw UserError(
        fmt::format("no trace in {}: neither of gpuwatch (.gwt) nor of torch.profiler (.json, .json.gz); the "
                    "job left none "
                    "there, or was not recorded: record it with gpuwatch run",
                    printable(directory)));
  if (set.directory.empty()) set.directory = run.empty() ? directory : run.string();
  set.files.insert(set.files.end(), files.begin(), files.end());
}

}  // namespace

TraceSet find_traces(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return newest();
  TraceSet set;
  for (const auto& argument : arguments) {
    std::error_code error;
    const auto status = fs::status(argument, error);
    if (status.type() == fs::file_type::not_found) {
      throw UserError(
          fmt::format("{} does not exist; name a trace directory, a .gwt file, or a trace of torch.profiler "
                      "(.json, .json.gz)",
                      printable(argument)));
    }
    if (error) {
      throw UserError(
          fmt::format("cannot look at {}: {}; check its permissions", printable(argument), error.message()));
    }
    if (!fs::is_directory(status)) {
      set.files.push_back(argument);
      if (set.directory.empty()) set.directory = fs::path(argument).parent_path().string();
      continue;
    }
    fs::directory_iterator readable(argument, error);
    if (error) {
      throw UserError(fmt::format("cannot read directory {}: {}; check its permissions", printable(argument),
                                  error.message()));
    }
    add_directory(argument, set);
    set.may_hold_several_runs = arguments.size() == 1;
  }
  std::sort(set.files.begin(), set.files.end());
  set.files.erase(std::unique(set.files.begin(), set.files.end()), set.files.end());
  if (set.directory.empty()) set.directory.push_back('.');
  return set;
}

}  // namespace gpuwatch::io
