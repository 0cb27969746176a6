// SPDX-License-Identifier: Apache-2.0
// The settings that the library can apply to a job (libinject/trace/applicable.def), for `gpuwatch run
// --apply` and `gpuwatch try`. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace gpuwatch::trial {

// Of an applied setting on what the job computes, as applicable.def explains them.
enum class Effect { None, Random, Order, Bits };

struct Applicable {
  std::string_view name, values, what;
  Effect effect;
  bool is_of_loader;
};

const Applicable* find_applicable(std::string_view name);  // null: cannot be applied

// "num_workers=4,prefetch_factor=4@train.py:88", as GPUWATCH_APPLY wants it. Throws io::UserError where the
// library would not understand it.
void check_settings(const std::string& settings);

std::string applicable_help();  // a line for each setting

}  // namespace gpuwatch::trial
