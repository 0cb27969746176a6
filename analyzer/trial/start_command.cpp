// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/start_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "analyzer/io/printable.h"

namespace gpuwatch::trial {

int execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "gpuwatch: {}\n", cannot_start_words(command, error));
  std::fflush(stderr);
  return error;
}

std::string cannot_start_words(const std::vector<std::string>& command, int error) {
  return fmt::format("cannot start {}: {}", io::printable(command[0]), std::strerror(error));
}

int exit_code_of_error(int error) {
  return error == ENOENT ? 127 : 126;
}

}  // namespace gpuwatch::trial
