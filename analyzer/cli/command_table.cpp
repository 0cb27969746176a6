// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/command_table.h"

#include <CLI/CLI.hpp>

namespace gpuwatch::cli {

namespace {

OptionWords words_of(const CLI::Option& option) {
  OptionWords words{.names = {}, .value = "", .description = option.get_description()};
  // Without the ranges that a validator adds: "INT:INT in [0 - 1024]".
  if (option.get_items_expected_max() > 0)
    words.value = option.get_type_name().substr(0, option.get_type_name().find(':'));
  if (option.get_positional()) {
    words.names.push_back(option.get_name());
    return words;
  }
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  return words;
}

CommandWords words_of(const CLI::App& app) {
  CommandWords words{.name = app.get_name(),
                     .description = app.get_description(),
                     .footer = app.get_footer(),
                     .options = {},
                     .operands = {}};
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty())
      (option->get_positional() ? words.operands : words.options).push_back(words_of(*option));
  return words;
}

}  // namespace

std::vector<CommandWords> command_table(const CLI::App& app) {
  std::vector<CommandWords> table{words_of(app)};
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); }))
    table.push_back(words_of(*command));
  return table;
}

}  // namespace gpuwatch::cli
