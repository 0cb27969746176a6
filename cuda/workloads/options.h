// SPDX-License-Identifier: Apache-2.0
// Command line of the workloads: `--name value` for numbers, `--name` for switches. Anything else ends the
// program with status 2 and a list of what there is.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

class Options {
 public:
  // The defaults are the list of allowed names. A switch is a number, 0 or 1.
  Options(int argc, char** argv, std::map<std::string, double> defaults) : values_(std::move(defaults)) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const auto found = word.rfind("--", 0) == 0 ? values_.find(word.substr(2)) : values_.end();
      if (found == values_.end()) usage(argv[0], word);
      char* end = nullptr;
      const double value = i + 1 < argc ? std::strtod(argv[i + 1], &end) : 0;
      const bool is_number = end && end != argv[i + 1] && *end == '\0';
      found->second = is_number ? value : 1;
      if (is_number) ++i;
    }
  }

  double number(const std::string& name) const { return values_.at(name); }
  int integer(const std::string& name) const { return static_cast<int>(values_.at(name)); }
  bool on(const std::string& name) const { return values_.at(name) != 0; }

 private:
  [[noreturn]] void usage(const char* program, const std::string& word) {
    std::fprintf(stderr, "%s: unknown option %s; there is:", program, word.c_str());
    for (const auto& [name, value] : values_) std::fprintf(stderr, " --%s (%g)", name.c_str(), value);
    std::fprintf(stderr, "\n");
    std::exit(2);
  }

  std::map<std::string, double> values_;
};
