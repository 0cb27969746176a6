// SPDX-License-Identifier: Apache-2.0
// Folders that take what a trial writes: where they can be, and how they are removed. Any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace gpuwatch::trial {

// Distinct top-level directories, because a scratch folder cannot take the writes of the tree it lies in.
std::vector<std::string> scratch_places(const std::string& preferred);

// A directory below a folder that only we may enter; -1 with errno.
int opened_folder(int parent, const char* name);

// Never follows a link, never enters another file system. errno of the first failure, else 0.
int remove_tree(int parent, const char* name, dev_t device);

}  // namespace gpuwatch::trial
