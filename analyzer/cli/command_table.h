// SPDX-License-Identifier: Apache-2.0
// The commands and their options as --help has them, read from the parser, so that shell completion and the
// manual page cannot differ from what the program accepts. Hidden commands and options are left out.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpuwatch::cli {

struct OptionWords {
  std::vector<std::string> names;  // "-o", "--out"
  std::string value;               // kind of value, in capitals; "" for a switch
  std::string description;
};

struct CommandWords {
  std::string name, description, footer;
  std::vector<OptionWords> options;
  std::vector<OptionWords> operands;  // words without dashes: one name each
};

// The program itself comes first, with its own options.
std::vector<CommandWords> command_table(const CLI::App& app);

}  // namespace gpuwatch::cli
