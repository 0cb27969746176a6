// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::cli {

void write_private_file(const std::string& option, const std::string& path,
                        const std::function<void(std::ostream&)>& write) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    throw io::UserError(fmt::format("{} {}: cannot be written: {}", option, io::printable(path),
                                    std::generic_category().message(errno)));
  struct stat status {};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) ::fchmod(file, 0600);  // it was there before
  ::close(file);
  std::ofstream out(path, std::ios::binary);
  write(out);
  if (!out.flush())
    throw io::UserError(fmt::format("{} {}: could not be written to its end; is the disk full?", option,
                                    io::printable(path)));
}

}  // namespace gpuwatch::cli
