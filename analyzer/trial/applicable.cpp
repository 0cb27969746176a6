// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/applicable.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::trial {
namespace {

enum class Kind { Loader, Worker, Process, Environment };

constexpr Applicable kApplicable[] = {
#define GW_APPLICABLE(name, kind, values, effect, what) \
  {#name, values, what, Effect::effect, Kind::kind == Kind::Loader},
#include "libinject/trace/applicable.def"
#undef GW_APPLICABLE
};

// "fork, forkserver or spawn": the words that are allowed.
bool is_word_of(std::string_view words, std::string_view value) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (value.empty() || value == "or" || !std::ranges::all_of(value, is_letter)) return false;
  for (size_t at = words.find(value); at != std::string_view::npos; at = words.find(value, at + 1)) {
    const size_t end = at + value.size();
    if ((at == 0 || !is_letter(words[at - 1])) && (end == words.size() || !is_letter(words[end])))
      return true;
  }
  return false;
}

bool is_value(const Applicable& setting, std::string_view value) {
  if (setting.values == "number")
    return !value.empty() && value.size() < 6 &&
           std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  if (setting.values == "text") return !value.empty() && value.size() < 128;
  if (setting.values == "True or False") return value == "True" || value == "False";
  return is_word_of(setting.values, value);
}

void check(std::string_view item) {
  const size_t equals = item.find('=');
  const std::string shown = io::printable(std::string(item));
  if (equals == std::string_view::npos)
    throw io::UserError(fmt::format("{}: write NAME=VALUE, as in num_workers=4", shown));
  const Applicable* setting = find_applicable(item.substr(0, equals));
  if (!setting)
    throw io::UserError(
        fmt::format("{}: this setting cannot be applied; gpuwatch run --help lists those that can", shown));
  const std::string_view after = item.substr(equals + 1);
  const size_t at = after.find('@');
  if (!is_value(*setting, after.substr(0, at)))
    throw io::UserError(fmt::format("{}: the value must be {}", shown,
                                    setting->values == "number" ? "a number" : setting->values));
  if (at == std::string_view::npos) return;
  if (!setting->is_of_loader)
    throw io::UserError(fmt::format("{}: only settings of a DataLoader take a place", shown));
  if (after.size() - at < 2 || after.size() - at > 256)
    throw io::UserError(fmt::format("{}: after @ comes the place of a DataLoader, as in train.py:88", shown));
}

}  // namespace

const Applicable* find_applicable(std::string_view name) {
  const auto* found = std::ranges::find(kApplicable, name, &Applicable::name);
  return found == std::end(kApplicable) ? nullptr : found;
}

void check_settings(const std::string& settings) {
  std::string_view rest = settings;
  std::string item;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    // "a:1,b:2" is one value.
    if (part.find('=') == std::string_view::npos && !item.empty()) {
      item += fmt::format(",{}", part);
    } else {
      if (!item.empty()) check(item);
      item = part;
    }
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  check(item);
}

std::string applicable_help() {
  std::string lines =
      "Settings for --apply, NAME=VALUE separated by commas. One of a DataLoader may end in the place of the "
      "only\n"
      "loader that it is for, as findings name it: num_workers=4@train.py:88\n";
  for (const Applicable& setting : kApplicable)
    lines += fmt::format("  {:<25} {:<27} {}\n", setting.name, setting.values, setting.what);
  return lines;
}

}  // namespace gpuwatch::trial
