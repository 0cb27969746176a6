// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>

#include "libinject/machine/mount_line.h"

namespace {

using namespace gpuwatch::machine;

bool parses(const std::string& line, MountLine* mount) {
  return parse_mount(line.data(), line.data() + line.size(), mount);
}

TEST(MountLine, ALineAsTheKernelWritesIt) {
  MountLine mount;
  ASSERT_TRUE(parses(
      "36 35 259:300 / /mnt/my\\040data rw,noatime shared:1 master:2 - nfs4 srv:/export rw,vers=4", &mount));
  EXPECT_EQ(mount.id, 36u);
  EXPECT_EQ(mount.device, makedev(259, 300));
  EXPECT_STREQ(mount.point, "/mnt/my data");
  EXPECT_STREQ(mount.type, "nfs4");
  EXPECT_STREQ(mount.source, "srv:/export");
  ASSERT_TRUE(parses("1 0 0:5 / / rw - overlay overlay rw", &mount));
  EXPECT_STREQ(mount.point, "/");
}

TEST(MountLine, GarbageIsNoMount) {
  MountLine mount;
  for (const char* line : {"", " ", "1", "1 2", "1 2 3 4 5", "1 2 3:4 / /p rw", "1 2 3:4 / /p rw -",
                           "1 2 3:4 / /p rw - t", "1 2 3:4 / /p rw - t ", "- - - - - -"}) {
    EXPECT_FALSE(parses(line, &mount)) << line;
  }
  EXPECT_FALSE(parses("1 0 0:5 / /" + std::string(5000, 'x') + " rw - ext4 /dev/sda rw", &mount));
}

TEST(MountLine, RemoteByType) {
  for (const char* type : {"nfs", "nfs4", "cifs", "fuse.sshfs", "fuse.gcsfuse", "fuse", "lustre", "9p"})
    EXPECT_TRUE(is_remote(type)) << type;
  for (const char* type : {"ext4", "xfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs",
                           "fuse.squashfuse", "virtiofs", ""}) {
    EXPECT_FALSE(is_remote(type)) << type;
  }
}

}  // namespace
