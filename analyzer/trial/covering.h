// SPDX-License-Identifier: Apache-2.0
// Covers every writable file system of this mount namespace by overlays (overlay.h says what that means and
// what is left out). For a forked child before exec, in a namespace of its own (mount_namespace.h). One
// thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gpuwatch::trial {

// Directories that get a layer because of another owner on the way to a path that the job is likely to write.
// To be called outside the namespace, which shows unmapped ids as 65534.
std::vector<std::string> writable_roots(const std::vector<std::string>& likely);

// Messages to the parent: "L<scratch> <upper directory> <path>" a layer, "R<path>" what the job could write
// and now cannot, "M<bytes>" with the descriptor of a tmpfs that takes layers.
using Send = std::function<void(const std::string& message, int fd)>;

// `scratches`: descriptors of the folders that take the layers' writes; is_own as from separate_mounts(). The
// failed step as a sentence, "" where nothing is wrong.
std::string cover(std::vector<int> scratches, bool is_own, Send send, const std::vector<std::string>& kept,
                  const std::vector<std::string>& likely);

}  // namespace gpuwatch::trial
