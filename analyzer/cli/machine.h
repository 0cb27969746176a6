// SPDX-License-Identifier: Apache-2.0
// What `gpuwatch doctor` says of the machine around the job, one sentence each. `root` is where the kernel's
// files stand: "" but in tests.
#pragma once

#include <string>

namespace gpuwatch::cli {

std::string storage_words(const std::string& root);  // file systems that data would come to over a network
std::string cpu_quota_words(const std::string& root);
std::string memory_limit_words(const std::string& root);  // of the control group
std::string pressure_words(const std::string& root);      // PSI
std::string nvml_words();
std::string peek_words(const std::string& root);  // whether a rank may read what its workers are doing

}  // namespace gpuwatch::cli
