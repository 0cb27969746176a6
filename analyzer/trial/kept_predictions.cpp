// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/kept_predictions.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "analyzer/advise/change.h"
#include "analyzer/model/quantile.h"

namespace gpuwatch::trial {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kFileName = "predictions.jsonl";
constexpr off_t kMostBytesRead = 256 << 10;  // about a thousand predictions
constexpr size_t kMostLineBytes = 4096;      // a line that keep() writes has less than 500
constexpr size_t kMostNameBytes = 64;
constexpr double kLongestMs = 1e9;  // 12 days: no step takes that

constexpr size_t kLeastToCount = 3;
// That five of five are off to one side is chance in one case of 16.
constexpr size_t kLeastForBias = 5;
// Older ones may be of an older model: each release predicts differently.
constexpr size_t kMostForBias = 20;
// As much as two runs of one job differ (kRunToRun in predict/prediction.cpp); each interval holds that
// already.
constexpr double kLeastBias = 0.03;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

bool is_opted_out() {
  const char* value = std::getenv("GPUWATCH_KEEP");
  return value && std::string_view(value) == "0";
}

// $XDG_DATA_HOME, which counts only where it is absolute (XDG Base Directory Specification); "" if there is
// none.
std::string data_home() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data && *data == '/') return data;
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.local/share" : "";
}

bool is_ours(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Folders above it may be links, as where ~/.local is on another disk; this one may not. -1: none that is
// ours.
int open_folder(bool make) {
  const std::string parent = data_home();
  if (parent.empty()) return -1;
  const std::string folder = parent + "/gpuwatch";
  if (make) {
    std::error_code error;
    fs::create_directories(parent, error);
    mkdir(folder.c_str(), 0700);  // one that exists is judged below
  }
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (fd >= 0 && (fstat(fd, &status) != 0 || !is_ours(status))) {
    close(fd);
    return -1;
  }
  return fd;
}

// O_NONBLOCK: a FIFO in place of the file must not block. A second name of it (a hard link) may be anybody's.
int open_file(const File& folder, int flags) {
  if (!folder.is_open()) return -1;
  const int fd = openat(folder.fd(), kFileName, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
  struct stat status;
  if (fd >= 0 &&
      (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || !is_ours(status) || status.st_nlink != 1)) {
    close(fd);
    return -1;
  }
  return fd;
}

bool is_plain(std::string_view text) {
  return text.size() <= kMostNameBytes && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '_' || c == '-';
         });
}

// What is no plain word may be a path or a name: it is left out.
std::string plain(const std::string& text) {
  return is_plain(text) ? text : "";
}

bool is_time(double ms) {
  return std::isfinite(ms) && ms > 0 && ms < kLongestMs;
}

bool is_valid(const KeptPrediction& kept) {
  const predict::Estimate& predicted = kept.predicted_ms;
  return is_time(kept.before_ms) && is_time(kept.achieved_ms) && is_time(predicted.low) &&
         is_time(predicted.high) && predicted.low <= predicted.expected &&
         predicted.expected <= predicted.high;
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

std::string as_line(const KeptPrediction& kept) {
  const json line = {{"format", kFormat},
                     {"day", kept.day.empty() ? today() : plain(kept.day)},
                     {"finding", plain(kept.finding)},
                     {"setting", plain(kept.setting)},
                     {"value", plain(kept.value)},
                     {"cpu_job", kept.is_cpu_job},
                     {"before_ms", kept.before_ms},
                     {"low_ms", kept.predicted_ms.low},
                     {"expected_ms", kept.predicted_ms.expected},
                     {"high_ms", kept.predicted_ms.high},
                     {"achieved_ms", kept.achieved_ms},
                     {"disturbed", kept.was_disturbed}};
  return line.dump() + '\n';
}

bool read(const json& line, const char* name, std::string& text) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_string() || !is_plain(found->get_ref<const std::string&>()))
    return false;
  text = found->get<std::string>();
  return true;
}

bool read(const json& line, const char* name, double& number) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number()) return false;
  number = found->get<double>();
  return true;
}

bool read(const json& line, const char* name, bool& flag) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_boolean()) return false;
  flag = found->get<bool>();
  return true;
}

std::optional<KeptPrediction> from_line(std::string_view text) {
  if (text.empty() || text.size() > kMostLineBytes) return std::nullopt;
  const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
  double format = 0;
  if (!line.is_object() || !read(line, "format", format) || format != kFormat) return std::nullopt;
  KeptPrediction kept;
  const bool is_complete =
      read(line, "day", kept.day) && read(line, "finding", kept.finding) &&
      read(line, "setting", kept.setting) && read(line, "value", kept.value) &&
      read(line, "cpu_job", kept.is_cpu_job) && read(line, "before_ms", kept.before_ms) &&
      read(line, "low_ms", kept.predicted_ms.low) && read(line, "expected_ms", kept.predicted_ms.expected) &&
      read(line, "high_ms", kept.predicted_ms.high) && read(line, "achieved_ms", kept.achieved_ms) &&
      read(line, "disturbed", kept.was_disturbed);
  return is_complete && is_valid(kept) ? std::optional(kept) : std::nullopt;
}

// The end of the file, without the line that its first byte cuts.
std::string tail(const File& file) {
  struct stat status;
  if (!file.is_open() || fstat(file.fd(), &status) != 0) return "";
  const off_t begin = std::max<off_t>(status.st_size - kMostBytesRead, 0);
  std::string text(size_t(status.st_size - begin), '\0');
  const ssize_t bytes = pread(file.fd(), text.data(), text.size(), begin);
  text.resize(size_t(std::max<ssize_t>(bytes, 0)));
  if (begin > 0) text.erase(0, std::min(text.find('\n'), text.size()));
  return text;
}

// A pinned batch is predicted on the device's timeline (advise/change.h), not by the loader's replay.
bool is_of_loader_replay(std::string_view setting) {
  using advise::LoaderOption;
  constexpr LoaderOption kOptions[] = {LoaderOption::kNumWorkers, LoaderOption::kPrefetchFactor,
                                       LoaderOption::kPersistentWorkers, LoaderOption::kInOrder};
  return std::ranges::any_of(kOptions,
                             [&](LoaderOption option) { return advise::option_name(option) == setting; });
}

std::vector<KeptPrediction> undisturbed(std::span<const KeptPrediction> kept) {
  std::vector<KeptPrediction> result;
  std::ranges::copy_if(kept, std::back_inserter(result),
                       [](const KeptPrediction& one) { return !one.was_disturbed && is_valid(one); });
  return result;
}

std::vector<double> ratios(std::span<const KeptPrediction> kept) {
  const std::vector<KeptPrediction> all = undisturbed(kept);
  std::vector<double> result;
  for (size_t i = all.size() - std::min(all.size(), kMostForBias); i < all.size(); ++i)
    result.push_back(all[i].achieved_ms / all[i].predicted_ms.expected);
  return result;
}

}  // namespace

bool keep(const KeptPrediction& prediction) {
  if (is_opted_out() || !is_valid(prediction)) return false;
  const File folder(open_folder(/*make=*/true));
  const File file(open_file(folder, O_WRONLY | O_APPEND | O_CREAT));
  if (!file.is_open()) return false;
  // One write a line: the kernel appends it as a whole, so lines of concurrent runs do not mix.
  const std::string line = as_line(prediction);
  return write(file.fd(), line.data(), line.size()) == ssize_t(line.size());
}

std::vector<KeptPrediction> kept_predictions() {
  std::vector<KeptPrediction> result;
  if (is_opted_out()) return result;
  const File folder(open_folder(/*make=*/false));
  const File file(open_file(folder, O_RDONLY));
  const std::string text = tail(file);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (auto kept = from_line(std::string_view(text).substr(begin, end - begin))) result.push_back(*kept);
    begin = end + 1;
  }
  return result;
}

std::vector<KeptPrediction> of_kind(std::span<const KeptPrediction> kept, std::string_view setting,
                                    bool is_cpu_job) {
  std::vector<KeptPrediction> result;
  std::ranges::copy_if(kept, std::back_inserter(result), [&](const KeptPrediction& one) {
    return one.is_cpu_job == is_cpu_job &&
           (one.setting == setting || (is_of_loader_replay(one.setting) && is_of_loader_replay(setting)));
  });
  return result;
}

std::string came_true_words(std::span<const KeptPrediction> kept) {
  const std::vector<KeptPrediction> all = undisturbed(kept);
  if (all.size() < kLeastToCount) return "";
  return fmt::format("{} of {} earlier predictions on this machine came true",
                     std::ranges::count_if(all, &KeptPrediction::came_true), all.size());
}

std::optional<double> observed_bias(std::span<const KeptPrediction> kept) {
  const std::vector<double> all = ratios(kept);
  if (all.size() < kLeastForBias) return std::nullopt;
  const double bias = model::median(all);
  return std::abs(bias - 1) > kLeastBias ? std::optional(bias) : std::nullopt;
}

predict::Prediction widened(predict::Prediction prediction, std::span<const KeptPrediction> kept) {
  const auto bias = observed_bias(kept);
  if (!bias || !(prediction.now > 0)) return prediction;
  const bool is_throughput = prediction.metric == "samples_per_s";
  predict::Estimate& value = prediction.value;
  const double seen = is_throughput ? value.expected / *bias : value.expected * *bias;
  if (!(seen > 0) || (value.low <= seen && seen <= value.high)) return prediction;
  value.low = std::min(value.low, seen);
  value.high = std::max(value.high, seen);
  const double now = prediction.now;
  prediction.speedup = is_throughput
                           ? predict::Estimate{value.low / now, value.expected / now, value.high / now}
                           : predict::Estimate{now / value.high, now / value.expected, now / value.low};
  prediction.assumptions.push_back(
      fmt::format("the interval is wider than this run alone suggests: with the last {} predictions of this "
                  "kind on this machine, "
                  "a step took {:.2f}x the expected time (median)",
                  ratios(kept).size(), *bias));
  return prediction;
}

}  // namespace gpuwatch::trial
