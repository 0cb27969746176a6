// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/printed_speed.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include "analyzer/trial/output_tokens.h"

namespace gpuwatch::trial {
namespace {

struct Noun {
  std::string_view word, rate;
  Rank rank;
};

// What is counted a second.
constexpr Noun kNouns[] = {
    {"samples", "samples/s", kSamples},
    {"sample", "samples/s", kSamples},
    {"examples", "examples/s", kSamples},
    {"example", "examples/s", kSamples},
    {"ex", "examples/s", kSamples},
    {"images", "images/s", kSamples},
    {"image", "images/s", kSamples},
    {"imgs", "images/s", kSamples},
    {"img", "images/s", kSamples},
    {"im", "images/s", kSamples},
    {"sequences", "sequences/s", kSamples},
    {"seqs", "sequences/s", kSamples},
    {"seq", "sequences/s", kSamples},
    {"sentences", "sentences/s", kSamples},
    {"frames", "frames/s", kSamples},
    {"clips", "clips/s", kSamples},
    {"graphs", "graphs/s", kSamples},
    {"rows", "rows/s", kSamples},
    {"tokens", "tokens/s", kTokens},
    {"token", "tokens/s", kTokens},
    {"toks", "tokens/s", kTokens},
    {"tok", "tokens/s", kTokens},
    {"words", "words/s", kTokens},
    {"steps", "steps/s", kSteps},
    {"step", "steps/s", kSteps},
    {"it", "it/s", kSteps},
    {"its", "it/s", kSteps},
    {"iter", "it/s", kSteps},
    {"iters", "it/s", kSteps},
    {"iterations", "it/s", kSteps},
    {"batches", "batches/s", kSteps},
    {"batch", "batches/s", kSteps},
    {"updates", "updates/s", kSteps},
};

struct Per {
  std::string_view word, duration, time;
};

// What a duration is of: the unit of "12 ms/step", and the name of "step time: 0.12".
constexpr Per kPers[] = {
    {"step", "ms/step", "step time"},      {"iter", "ms/iter", "iter time"},
    {"iteration", "ms/iter", "iter time"}, {"it", "ms/iter", "iter time"},
    {"batch", "ms/batch", "batch time"},   {"update", "ms/update", "update time"},
};

struct Scale {
  std::string_view word;
  double factor;
};

constexpr Scale kMilliseconds[] = {{"s", 1e3},      {"sec", 1e3},       {"secs", 1e3},
                                   {"second", 1e3}, {"seconds", 1e3},   {"ms", 1},
                                   {"msec", 1},     {"millisecond", 1}, {"us", 1e-3}};
constexpr Scale kPrefixes[] = {{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}};

// fairseq's keys: words (tokens) and updates a second.
constexpr Noun kKeys[] = {{"wps", "words/s", kTokens}, {"ups", "updates/s", kSteps}};

// Among the first words of a line: the number is not the speed of training. `map`, `filter` and the like are
// the bars of Hugging Face's datasets; "Sanity Checking" is Lightning's.
constexpr std::string_view kNotTraining[] = {
    "eval",      "evaluate",   "evaluating",    "evaluation",  "evaluator",  "val",     "valid",
    "validate",  "validating", "validation",    "test",        "testing",    "predict", "predicting",
    "inference", "sanity",     "download",      "downloading", "fetching",   "loading", "resolving",
    "map",       "filter",     "tokenizing",    "generating",  "extracting", "caching", "scanning",
    "indexing",  "building",   "preprocessing", "saving",
};

// The label of the number itself: a part of the step, or something else than a speed.
constexpr std::string_view kParts[] = {
    "data",  "dataload",  "dataloading", "load", "fetch", "forward",   "fwd",  "backward", "bwd",
    "optim", "optimizer", "comm",        "copy", "lr",    "inference", "eval", "val",      "test",
};

// What a "time" is of, where it is not of a step.
constexpr std::string_view kOtherTimes[] = {"elapsed",   "eta",   "total", "wall",
                                            "remaining", "epoch", "run",   "train"};

template <class Table>
auto* find_word(const Table& table, std::string_view word) {
  const auto found = std::ranges::find_if(table, [&](const auto& row) { return row.word == word; });
  return found == std::end(table) ? nullptr : &*found;
}

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// What one line of output says of the speed of training.
class Line {
 public:
  explicit Line(std::string_view text) : tokens_(tokens_of(text)) {
    find_head();
    find_bar();
    for (size_t at = 0; at + 2 < tokens_.size(); ++at)
      has_data_time_ |= is_word(at, "data") && is_sign(at + 1, "_") && is_word(at + 2, "time");
  }

  std::vector<Reading> readings() const {
    std::vector<Reading> result;
    for (size_t at = 0; at < tokens_.size(); ++at) {
      for (const auto& reading : {with_unit(at), bare_rate(at), step_time(at), keyed(at)})
        if (reading && is_training(*reading)) result.push_back(*reading);
    }
    return result;
  }

  // Which bar or kind of line a reading is in: the same in every line of it, whatever its numbers are and
  // whatever metrics are added behind.
  std::string kind(const Reading& reading) const {
    std::string words;
    for (const HeadWord& word : head_before(reading.at)) words += word.text + ' ';
    return words + total_;
  }

 private:
  struct UnitAt {
    Unit unit;
    size_t begin = 0, end = 0;  // tokens; `end` is the one after it
    bool is_prefixed = false;   // "5.51Msamples/s"
  };
  struct Value {
    double value = 0, resolution = 0;
    size_t at = 0;
    bool is_attached = false;
  };

  bool is_word(size_t at) const { return at < tokens_.size() && tokens_[at].kind == Token::kWord; }
  bool is_word(size_t at, std::string_view word) const { return is_word(at) && tokens_[at].text == word; }
  bool is_number(size_t at) const {
    return at < tokens_.size() && tokens_[at].kind == Token::kNumber && tokens_[at].is_clean;
  }
  bool is_sign(size_t at, std::string_view signs) const {
    return at < tokens_.size() && tokens_[at].kind == Token::kSign &&
           signs.find(tokens_[at].sign) != signs.npos;
  }
  bool is_joined(size_t at) const { return at < tokens_.size() && !tokens_[at].is_spaced; }

  struct HeadWord {
    size_t at;
    std::string text;
  };

  // Enough to tell "Epoch" from "Test" behind what a logger puts before it ("- mmengine - INFO -"). Words
  // with digits (ranks, devices) and single letters are no names.
  void find_head() {
    for (size_t at = 0; at < tokens_.size() && head_.size() < 4; ++at)
      if (is_word(at) && tokens_[at].text.size() > 1 && std::ranges::none_of(tokens_[at].text, is_digit))
        head_.push_back({at, tokens_[at].text.substr(0, 32)});
  }

  std::span<const HeadWord> head_before(size_t at) const {
    return {head_.begin(), std::ranges::find_if(head_, [&](const HeadWord& word) { return word.at >= at; })};
  }

  bool is_training(const Reading& reading) const {
    return !is_one_of(kParts, reading.label) &&
           std::ranges::none_of(head_before(reading.at),
                                [](const HeadWord& word) { return is_one_of(kNotTraining, word.text); });
  }

  // tqdm: "12/100 [00:01<00:10, 8.31it/s]". Bars of training and of evaluation differ by their total.
  void find_bar() {
    // Keras: "12/100 ━━━━ 3s 25ms/step"; a date has a time or a year next.
    if (tokens_.size() > 3 && tokens_[0].kind == Token::kNumber && is_sign(1, "/") &&
        tokens_[2].kind == Token::kNumber && tokens_[3].kind != Token::kNumber && !is_sign(3, "/"))
      total_ = tokens_[2].text.substr(0, 32);
    for (size_t at = 1; at + 3 < tokens_.size(); ++at) {
      if (!is_sign(at, "[") || tokens_[at + 1].kind != Token::kNumber || !is_sign(at + 2, ":")) continue;
      const size_t count = is_word(at - 1) && is_joined(at - 1) && at > 1 ? at - 2 : at - 1;
      if (tokens_[count].kind != Token::kNumber) continue;  // the time of day, as loggers put it in front
      is_bar_ = true;
      if (count > 0 && is_sign(count - 1, "/")) total_ = tokens_[count].text.substr(0, 32);
      return;
    }
  }

  // "samples / s", "samples per second", "samples_per_second": the word that is counted, and the one after.
  std::optional<size_t> denominator(size_t noun) const {
    if (is_sign(noun + 1, "/") && is_joined(noun + 1) && is_word(noun + 2) && is_joined(noun + 2))
      return noun + 2;
    const size_t per = noun + 1 + size_t(is_sign(noun + 1, "_"));
    if (!is_word(per, "per")) return std::nullopt;
    const size_t last = per + 1 + size_t(is_sign(per + 1, "_"));
    return is_word(last) ? std::optional(last) : std::nullopt;
  }

  std::optional<Unit> unit_of(std::string_view noun, std::string_view per) const {
    const Scale* scale = find_word(kMilliseconds, noun);
    const Scale* seconds = find_word(kMilliseconds, per);
    if (const Noun* counted = find_word(kNouns, noun); counted && seconds && seconds->factor == 1e3)
      return Unit{counted->rate, true, counted->rank};
    if (!scale) return std::nullopt;
    // tqdm turns "0.8it/s" into "1.25s/it": one unit, or a bar that crosses 1 would have two series.
    const Noun* inverse = find_word(kNouns, per);
    if (inverse && (is_bar_ || per == "it"))
      return Unit{inverse->rate, true, inverse->rank, 1e3 / scale->factor, true};
    const Per* duration = find_word(kPers, per);
    return duration ? std::optional(Unit{duration->duration, false, kDuration, scale->factor}) : std::nullopt;
  }

  std::optional<UnitAt> unit_at(size_t at) const {
    if (!is_word(at) || (at > 0 && is_sign(at - 1, "/") && is_joined(at))) return std::nullopt;
    const auto last = denominator(at);
    if (!last) return std::nullopt;
    // "tokens/s/gpu", "samples_per_second_per_device", "tokens/s per GPU": of one device.
    const size_t end = *last + 1;
    if ((is_sign(end, "/_-") && is_joined(end) && is_word(end + 1)) || is_word(end, "per"))
      return std::nullopt;
    const std::string& noun = tokens_[at].text;
    if (auto unit = unit_of(noun, tokens_[*last].text)) return UnitAt{*unit, at, end};
    const Scale* prefix = find_word(kPrefixes, std::string_view(&tokens_[at].first, 1));
    if (!prefix || at == 0 || !is_number(at - 1) || !is_joined(at)) return std::nullopt;
    auto unit = unit_of(std::string_view(noun).substr(1), tokens_[*last].text);
    if (!unit) return std::nullopt;
    unit->factor *= prefix->factor;
    return UnitAt{*unit, at, end, true};
  }

  // "k" of "12.3k": 1 where there is none.
  double prefix_at(size_t at) const {
    if (!is_word(at) || !is_joined(at) || tokens_[at].text.size() != 1) return 1;
    const Scale* prefix = find_word(kPrefixes, std::string_view(&tokens_[at].first, 1));
    return prefix ? prefix->factor : 1;
  }

  std::optional<Value> before(const UnitAt& unit) const {
    if (unit.begin == 0) return std::nullopt;
    size_t at = unit.begin - 1;
    const double factor = prefix_at(at);
    if (factor != 1 && at > 0) --at;
    if (!is_number(at)) return std::nullopt;
    return Value{tokens_[at].value * factor, tokens_[at].resolution * factor, at, is_joined(unit.begin)};
  }

  std::optional<Value> value_at(size_t at) const {
    if (!is_number(at)) return std::nullopt;
    const double factor = prefix_at(at + 1);
    const bool has_unit =
        unit_at(at + 1 + size_t(factor != 1)) || (factor == 1 && is_word(at + 1) && is_joined(at + 1));
    if (has_unit) return std::nullopt;
    return Value{tokens_[at].value * factor, tokens_[at].resolution * factor, at};
  }

  // "'samples_per_second': 12.3", "ms/batch 12.3", "Throughput (samples/s): 12.3"
  struct After {
    std::optional<Value> value;
    bool has_separator = false;
  };
  After after(size_t at) const {
    After result;
    for (size_t signs = 0; signs < 4 && is_sign(at, ")]\"':="); ++signs, ++at)
      result.has_separator |= is_sign(at, ":=");
    result.value = value_at(at);
    return result;
  }

  bool is_unit_of_number(size_t at) const {
    return at > 0 && is_joined(at) && tokens_[at - 1].kind == Token::kNumber;
  }

  // The word in front of a number or a unit, with nothing between them that separates: "Data: 0.1 s/it".
  std::string label_before(size_t at) const {
    for (size_t steps = 0; at > 0 && steps < 4; ++steps) {
      --at;
      if (is_word(at)) return is_unit_of_number(at) ? "" : tokens_[at].text.substr(0, 32);
      if (!is_sign(at, "_:=('\"")) return "";
    }
    return "";
  }

  std::optional<Reading> with_unit(size_t at) const {
    const auto unit = unit_at(at);
    if (!unit) return std::nullopt;
    const auto first = before(*unit);
    const After second = after(unit->end);
    const bool is_first_attached = first && (first->is_attached || unit->is_prefixed);
    if (second.value && second.has_separator && !is_first_attached) {
      Reading reading = read(unit->unit, *second.value, at, label_before(at));
      reading.is_summary = reading.label == "train" && at > 0 && is_sign(at - 1, "_");
      if (reading.is_summary) reading.label.clear();
      return reading;
    }
    if (first && second.value && !is_first_attached) return std::nullopt;  // "20.0 ms/batch 123.2": which?
    if (first) return read(unit->unit, *first, at, label_before(first->at));
    if (second.value) return read(unit->unit, *second.value, at, label_before(at));
    return std::nullopt;
  }

  // timm: "Time: 0.123s,  512.30/s (0.130s,  500.00/s)". Elsewhere "/s" may be anything ("lr 1e-3/s").
  std::optional<Reading> bare_rate(size_t at) const {
    if (at < 4 || !is_sign(at, "/") || !is_joined(at) || !is_word(at + 1, "s") || !is_joined(at + 1))
      return std::nullopt;
    if (!is_number(at - 1) || !is_sign(at - 2, ",") || !is_word(at - 3, "s") || !is_number(at - 4))
      return std::nullopt;
    const Token& number = tokens_[at - 1];
    return read({"/s", true, kSamples}, {number.value, number.resolution, at - 1}, at, "");
  }

  // "Time 0.123 (0.130)" of PyTorch's ImageNet example, "time: 0.71  data_time: 0.01" of detectron2 and
  // mmengine, "iter 10: loss 3.2, time 134.21ms" of nanoGPT, "elapsed time per iteration (ms): 123.4" of
  // Megatron, "step_time: 0.12". A time without any of that may be of anything.
  std::optional<Reading> step_time(size_t at) const {
    if (!is_word(at, "time") && !is_word(at, "dt")) return std::nullopt;
    const bool is_part_of_name = at > 0 && is_sign(at - 1, "_") && is_joined(at);
    const size_t before_name = at - 1 - size_t(is_part_of_name);
    const Per* of = at > size_t(is_part_of_name) && is_word(before_name)
                        ? find_word(kPers, tokens_[before_name].text)
                        : nullptr;
    size_t next = at + 1;
    if (is_word(next, "per") && is_word(next + 1) && (of = find_word(kPers, tokens_[next + 1].text)))
      next += 2;
    if (is_part_of_name && !of) return std::nullopt;  // data_time, last_time
    const Scale* unit = nullptr;
    if (is_sign(next, "(") && is_word(next + 1) && is_sign(next + 2, ")")) {
      unit = find_word(kMilliseconds, tokens_[next + 1].text);
      next += 3;
    }
    while (is_sign(next, "\"':=")) ++next;
    if (!is_number(next)) return std::nullopt;
    const Token& number = tokens_[next++];
    if (is_word(next) && is_joined(next) && !(unit = find_word(kMilliseconds, tokens_[next++].text)))
      return std::nullopt;
    const bool has_average = is_sign(next, "(") && is_number(next + 1) && is_sign(next + 2, ")");
    if (!of && !has_average && !(unit && counts_steps(at)) && !has_data_time_) return std::nullopt;
    Reading reading =
        read(time_unit(of, unit), {number.value, number.resolution, next}, at, of ? "" : label_before(at));
    if (is_one_of(kOtherTimes, reading.label)) return std::nullopt;
    reading.may_be_elapsed = !of;
    return reading;
  }

  static Unit time_unit(const Per* of, const Scale* unit) {
    if (of && unit) return {of->duration, false, kDuration, unit->factor};
    if (of) return {of->time, false, kDuration};
    return unit ? Unit{"ms (time)", false, kTime, unit->factor} : Unit{"time", false, kTime};
  }

  // "iter 10: ..."
  bool counts_steps(size_t before) const {
    return std::ranges::any_of(head_before(before),
                               [](const HeadWord& word) { return find_word(kPers, word.text); });
  }

  // "wps=12345", "throughput: 1234.5": the key is all there is of a unit.
  std::optional<Reading> keyed(size_t at) const {
    if (!is_word(at) || (at > 0 && is_sign(at - 1, "_") && is_joined(at))) return std::nullopt;
    const Noun* key = find_word(kKeys, tokens_[at].text);
    if (!key && tokens_[at].text != "throughput") return std::nullopt;
    const After value = after(at + 1);
    if (!value.value || !value.has_separator) return std::nullopt;
    const size_t next = value.value->at + 1;
    const bool is_all = !is_word(next) ? !is_sign(next, "/[(") : is_sign(next + 1, ":=");
    if (!is_all && prefix_at(next) == 1) return std::nullopt;  // "throughput: 80.2 TFLOP/s", "... MB/s"
    return read(key ? Unit{key->rate, true, key->rank} : Unit{"throughput", true, kTokens}, *value.value, at,
                label_before(at));
  }

  static Reading read(const Unit& unit, const Value& value, size_t at, std::string label) {
    Reading reading{unit, value.value * unit.factor, value.resolution * unit.factor, std::min(at, value.at),
                    std::move(label)};
    if (unit.is_inverse) {
      reading.value = unit.factor / value.value;
      reading.resolution = reading.value * value.resolution / value.value;
    }
    return reading;
  }

  std::vector<Token> tokens_;
  std::vector<HeadWord> head_;
  bool is_bar_ = false, has_data_time_ = false;
  std::string total_;
};

}  // namespace

std::vector<Reading> speeds_in(std::string_view text) {
  const Line line(text);
  std::vector<Reading> readings = line.readings();
  for (Reading& reading : readings) reading.kind = line.kind(reading);
  return readings;
}

}  // namespace gpuwatch::trial
