// SPDX-License-Identifier: Apache-2.0
// An error that the user can act on: one sentence that says what, where and what to do. The command line
// prints it on one line and exits with 2; nothing else is ever shown for it. Text taken from a trace or a
// path must be made printable (io/printable.h) before it goes into the sentence.
#pragma once

#include <stdexcept>

namespace gpuwatch::io {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace gpuwatch::io
