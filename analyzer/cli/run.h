// SPDX-License-Identifier: Apache-2.0
// `gpuwatch run`: runs a command with the library preloaded, passes signals and the exit code through and
// prints one report when it has ended. The report goes to stderr: the command's stdout stays the command's.
#pragma once

#include <string>
#include <vector>

namespace gpuwatch::cli {

struct RunOptions {
  std::vector<std::string> command;
  std::string out;    // run directory, "" for ./gpuwatch-<script>-<run id>
  std::string apply;  // settings for the library to apply: applicable.h
  bool no_report = false;
};

// Exit code of the command, 128 + n when signal n ended it, 126 or 127 when it could not be started.
int run(const RunOptions& options);

// "train" of {"python", "-u", "dir/train.py", ...}, "trainer" of {"./trainer"}; only letters, digits, . _ -
std::string script_name(const std::vector<std::string>& command);

}  // namespace gpuwatch::cli
