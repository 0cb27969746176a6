// SPDX-License-Identifier: Apache-2.0
// Becoming a user's command, in a forked child.
#pragma once

#include <string>
#include <vector>

namespace gpuwatch::trial {

// Comes back only where the command cannot be started: prints the sentence below to stderr, returns errno.
int execute(const std::vector<std::string>& command);

// "cannot start ./train: Permission denied"
std::string cannot_start_words(const std::vector<std::string>& command, int error);

// What a shell's exit code would be: 127 not found, 126 not executable.
int exit_code_of_error(int error);

}  // namespace gpuwatch::trial
