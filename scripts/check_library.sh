#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check_library.sh BUILD: checks the built libgpuwatch.so. A preloaded library with a missing dependency or
# symbol version stops every command of a user, so:
#   it needs only libc's own libraries, and no symbol version newer than GLIBC_2.28;
#   it has one constructor, and no destructor;
#   it exports exactly the names of the version script that the hook tables generate.
set -uo pipefail
build=${1:?usage: check_library.sh BUILD}
library=$build/lib/libgpuwatch.so
exports=$build/hooks/exports.map
readonly floor=2.28
readonly libc_libraries='^(libc\.so\.6|ld-linux-x86-64\.so\.2|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|libm\.so\.6)$'

failed=0
complain() { echo "check_library: $*" >&2; failed=1; }
for file in "$library" "$exports"; do
  [ -f "$file" ] || { echo "check_library: $file does not exist; run 'make build'" >&2; exit 1; }
done

# ---- needed libraries and symbol versions
while read -r needed; do
  [[ $needed =~ $libc_libraries ]] || complain "needs $needed, which a user's machine may lack; link it out of libgpuwatch"
done < <(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')

while read -r symbol version; do
  case $version in
    GLIBC_PRIVATE) complain "$symbol@$version is private to one glibc; do without it" ;;
    GLIBC_*)
      newest=$(printf '%s\n' "${version#GLIBC_}" $floor | sort -V | tail -1)
      [ "$newest" = $floor ] || complain "$symbol@$version is newer than GLIBC_$floor; bind an older version in libinject/base/glibc_floor.h" ;;
    *) complain "$symbol@$version belongs to the C++ or compiler runtime; injected code has libc alone" ;;
  esac
done < <(readelf --dyn-syms -W "$library" | awk '$7 == "UND" && $8 ~ /@/ {split($8, part, /@+/); print part[1], part[2]}' | sort -u)

# An unversioned undefined symbol would be looked up in whatever the program happens to have loaded. Weak ones are the
# toolchain's own (__gmon_start__ and the like).
while read -r symbol; do
  complain "$symbol is undefined and belongs to no library"
done < <(readelf --dyn-syms -W "$library" | awk '$7 == "UND" && $5 == "GLOBAL" && $8 != "" && $8 !~ /@/ {print $8}')

[ "$(nm "$library" 2>/dev/null | wc -l)" -gt 0 ] || complain "is stripped; check it before stripping, so that constructors have names"

# ---- constructors: frame_dummy and __do_global_dtors_aux are the compiler's and do nothing here
entries_of() {
  local section=$1 begin size
  read -r begin size < <(readelf -SW "$library" | sed 's/^ *\[ *[0-9]*\] *//' | awk -v name="$section" '$1 == name {print $3, $5}')
  [ -n "${begin:-}" ] || return 0
  readelf -rW "$library" | awk '$3 == "R_X86_64_RELATIVE" {print $1, $4}' | while read -r at target; do
    if ((16#$at >= 16#$begin && 16#$at < 16#$begin + 16#$size)); then
      nm -C "$library" | awk -v address="$(printf '%016x' "0x$target")" '$1 == address {$1 = $2 = ""; print; found = 1; exit} END {if (!found) print "0x" address}'
    fi
  done | sed 's/^ *//' | grep -v -x -E 'frame_dummy|__do_global_dtors_aux'
}
mapfile -t constructors < <(entries_of .init_array)
[ ${#constructors[@]} -eq 1 ] || complain "has ${#constructors[@]} constructors (${constructors[*]:-none}) instead of one; make other globals constinit"
mapfile -t destructors < <(entries_of .fini_array)
[ ${#destructors[@]} -eq 0 ] || complain "has destructors (${destructors[*]}); the library stays usable until the process is gone"

# ---- exports
expected=$(sed -E 's|/\*.*\*/||g; s|#.*||' "$exports" | tr -d ' \t' | tr '{};' '\n\n\n' |
  awk '/^global:/ {global = 1; sub(/^global:/, "")} /^local:/ {global = 0} global && NF {print}' | sort -u)
actual=$(nm -D --defined-only "$library" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u)
[ -n "$expected" ] || complain "$exports names no exports"
while read -r symbol; do complain "exports $symbol, which $exports does not name"; done < <(comm -13 <(echo "$expected") <(echo "$actual") | grep .)
while read -r symbol; do complain "does not export $symbol, which $exports names"; done < <(comm -23 <(echo "$expected") <(echo "$actual") | grep .)

[ $failed -eq 0 ] && echo "check_library: $(wc -l <<<"$actual") exports, constructor ${constructors[0]}, glibc $floor or older"
exit $failed
