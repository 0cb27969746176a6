#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what the tests of the HTML report (tests/page) need and nothing else does: a headless Chromium from the
# system's packages, unless a browser is there, and into build/browser what drives it and what checks accessibility.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly packages=(playwright==1.65.2 axe-playwright-python==0.1.8) place=build/browser

say() { printf 'browser: %s\n' "$*"; }

find_browser() {
  local name
  for name in chromium-headless-shell chromium google-chrome; do
    if command -v "$name"; then
      return
    fi
  done
  return 1
}

if ! find_browser >/dev/null; then
  command -v apt-get >/dev/null || { say "no Chromium found; install it and run this again" >&2; exit 1; }
  as_root=
  [ "$(id -u)" -eq 0 ] || as_root=sudo
  say "installing Debian's chromium-headless-shell (96 MB to download)"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 --no-install-recommends install -y chromium-headless-shell >build/browser-apt.log 2>&1 || {
    cat build/browser-apt.log >&2
    say "Chromium could not be installed (Ubuntu has it as a snap only: install google-chrome there)" >&2
    exit 1
  }
fi
if [ "$(cat "$place/.packages" 2>/dev/null)" != "${packages[*]}" ]; then
  say "fetching ${packages[*]} from the package index into $place (54 MB to download)"
  rm -rf "$place"
  build/venv/bin/python -m pip install -qq --disable-pip-version-check --no-input --target "$place" "${packages[@]}"
  echo "${packages[*]}" >"$place/.packages"
fi
say "$(find_browser), $place"
