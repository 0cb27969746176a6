// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/own_clock.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/model/quantile.h"
#include "analyzer/trial/output_tokens.h"
#include "analyzer/trial/printed_speed.h"

namespace gpuwatch::trial {
namespace {

// No line of a log or a bar that people read is longer; the rest of a longer one is skipped.
constexpr size_t kMostLineBytes = 4096;
constexpr size_t kLeastReadings = 3;

// Two runs of one job differ by up to 3% (kRunToRun in predict/prediction.cpp). A number that is printed more
// coarsely than that says less than the noise.
constexpr double kCoarsest = 0.03;

struct Series {
  Unit unit;
  std::vector<double> values, resolutions;
  size_t line = 0;  // of the last reading
  bool is_summary = false, may_be_elapsed = false;

  // A clock since the start only ever grows; the times of three or more steps seldom do.
  bool is_elapsed() const {
    return may_be_elapsed && std::ranges::adjacent_find(values, std::greater_equal<>()) == values.end();
  }
};

class AllSeries {
 public:
  void add(std::string_view text) {
    // Without a digit there is no reading.
    if (std::ranges::none_of(text, is_digit)) return;
    const std::vector<Reading> readings = speeds_in(text);
    if (readings.empty()) return;
    ++lines_;
    for (const Reading& reading : readings) add(reading);
  }

  std::optional<OwnClock> best() const {
    const std::string* best = nullptr;
    for (const std::string& name : names_)
      if (!best || is_better(series_.at(name), series_.at(*best))) best = &name;
    if (!best || score(series_.at(*best)) == 0) return std::nullopt;
    return clock(*best);
  }

 private:
  void add(const Reading& reading) {
    if (!std::isfinite(reading.value) || reading.value <= 0) return;
    std::string name = std::string(reading.unit.name) + '|' + reading.kind + '|' + reading.label;
    auto [found, is_new] = series_.try_emplace(name);
    Series& series = found->second;
    if (is_new) names_.push_back(std::move(name));
    // The first of a line: what follows is its average, or the same bar once more.
    if (std::exchange(series.line, lines_) == lines_) return;
    series.unit = reading.unit;
    series.is_summary = reading.is_summary;
    series.may_be_elapsed = reading.may_be_elapsed;
    series.values.push_back(reading.value);
    series.resolutions.push_back(reading.resolution);
  }

  static size_t score(const Series& series) {
    if (series.values.size() >= kLeastReadings) return series.is_elapsed() ? 0 : series.values.size();
    return series.is_summary ? 1 : 0;
  }

  static bool is_better(const Series& one, const Series& other) {
    if (score(one) != score(other)) return score(one) > score(other);
    return one.unit.rank < other.unit.rank;
  }

  OwnClock clock(const std::string& name) const {
    const Series& series = series_.at(name);
    const auto warm = ptrdiff_t(series.values.size() / 4);
    const auto median = [&](const std::vector<double>& all) {
      return model::median(std::vector(all.begin() + warm, all.end()));
    };
    return {.unit = std::string(series.unit.name),
            .is_rate = series.unit.is_rate,
            .value = median(series.values),
            .resolution = median(series.resolutions),
            .readings = series.values.size(),
            .is_summary = series.is_summary,
            .series = name};
  }

  std::unordered_map<std::string, Series> series_;
  std::vector<std::string> names_;  // as first printed
  size_t lines_ = 0;
};

// Cuts output into lines. A carriage return ends one too: a bar overwrites itself. So does any escape
// sequence but a color's, because it moves the cursor or erases; Keras goes back by backspaces.
class Lines {
 public:
  explicit Lines(AllSeries& all) : all_(all) {}

  void read(std::string_view output) {
    for (size_t at = 0; at < output.size(); ++at) {
      const char c = output[at];
      if (c == '\n' || c == '\r') {
        end();
      } else if (c == '\x1b') {
        at = skip_escape(output, at);
      } else if (c == '\b' || c == '\t') {
        put(' ');
      } else {
        put(c);
      }
    }
    end();
  }

 private:
  void put(char c) {
    if (c == ' ' && !line_.empty() && line_.back() == ' ') return;
    if (line_.size() < kMostLineBytes) line_ += c;
  }

  void end() {
    all_.add(line_);
    line_.clear();
  }

  // The last byte of the sequence (ECMA-48). One that is cut short or too long ends where it stops being one.
  size_t skip_escape(std::string_view output, size_t at) {
    const char kind = at + 1 < output.size() ? output[at + 1] : '\0';
    if (kind == ']') {  // a window title, up to BEL or the next escape
      for (at += 2; at < output.size() && output[at] != '\a' && output[at] != '\n';)
        if (output[at++] == '\x1b') break;
      return at;
    }
    if (kind != '[') return at + 1;
    for (at += 2; at < output.size() && output[at] >= ' ' && output[at] < '@';) ++at;
    if (at < output.size() && output[at] != 'm') end();
    return at;
  }

  AllSeries& all_;
  std::string line_;
};

}  // namespace

std::optional<OwnClock> own_clock(std::string_view output) {
  AllSeries all;
  Lines(all).read(output);
  return all.best();
}

std::optional<double> own_speedup(const OwnClock& before, const OwnClock& after) {
  if (before.unit != after.unit || before.series != after.series || before.is_summary != after.is_summary)
    return std::nullopt;
  for (const OwnClock* clock : {&before, &after})
    if (!(clock->value > 0) || clock->resolution > kCoarsest * clock->value) return std::nullopt;
  return before.is_rate ? after.value / before.value : before.value / after.value;
}

}  // namespace gpuwatch::trial
