# SPDX-License-Identifier: Apache-2.0
"""The wheel and the tarball, packed from the build under test: what is in them, and that an installed gpuwatch finds its library.

`make wheel` packs the same layout with an analyzer that is linked for older systems; that takes a download, so it is checked
there and not here.
"""

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "scripts/packages"
pytestmark = pytest.mark.beside_others
VERSION = re.search(r"^project\(gpuwatch VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
# Says which library is loaded into the job, and by which path it was asked for.
JOB = "import os; print(os.environ['LD_PRELOAD']); print(*{l.split(maxsplit=5)[5].strip() for l in open('/proc/self/maps') if 'libgpuwatch' in l})"


def run(*words, environment=None, **options):
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | (environment or {})
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=environment, **options)
    return done


def succeed(*words, **options):
    done = run(*words, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pack(kind, prefix, to, *options, **others):
    return run(sys.executable, PACKAGES / f"pack_{kind}.py", prefix, "--to", to, *options, **others)


@pytest.fixture(scope="module")
def prefix(build, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("layout") / "prefix"
    succeed(sys.executable, PACKAGES / "lay_out.py", prefix, "--build", build)
    return prefix


@pytest.fixture(scope="module")
def wheel(prefix, tmp_path_factory):
    to = tmp_path_factory.mktemp("wheel")
    done = pack("wheel", prefix, to, "--platform", "linux_x86_64")
    assert done.returncode == 0, done.stderr
    return next(to.glob("*.whl"))


@pytest.fixture(scope="module")
def tarball(prefix, tmp_path_factory):
    to = tmp_path_factory.mktemp("tarball")
    done = pack("tarball", prefix, to)
    assert done.returncode == 0, done.stderr
    return next(to.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def pip(tmp_path_factory):
    """Installs the wheel with the options given, from no index."""
    folder = tmp_path_factory.mktemp("venv")
    succeed(sys.executable, "-m", "venv", folder)

    def install(wheel, *options, **others):
        succeed(folder / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", *options, wheel, **others)
        return folder

    return install


def check_installed(program, folder, **options):
    """The program starts without Python, finds its library in `folder` and gets it into a job."""
    assert succeed(program, "--version", **options) == f"gpuwatch {VERSION}\n"
    library = succeed(program, "lib", **options).strip()
    assert " " not in library
    assert Path(library).resolve().is_relative_to(Path(folder).resolve())
    asked, loaded = succeed(program, "run", "--no-report", sys.executable, "-c", JOB, **options).splitlines()
    assert asked == library
    assert loaded == str(Path(library).resolve())


def check_module(python, program, **options):
    """`import gpuwatch` in this interpreter has the program that was installed with it."""
    found = succeed(python, "-c", "from gpuwatch.program import find_program; print(find_program())", **options)
    assert Path(found.strip()) == Path(program).resolve()


def test_wheel_has_its_files(wheel):
    assert wheel.name == f"gpuwatch_profiler-{VERSION}-py3-none-linux_x86_64.whl"
    info, data = f"gpuwatch_profiler-{VERSION}.dist-info", f"gpuwatch_profiler-{VERSION}.data"
    with zipfile.ZipFile(wheel) as archive:
        members = {member.filename: member for member in archive.infolist()}
        assert members[f"{data}/scripts/gpuwatch"].external_attr >> 16 & 0o777 == 0o755
        assert archive.read(f"{data}/scripts/gpuwatch")[:4] == archive.read(f"{data}/data/libexec/gpuwatch/libgpuwatch.so")[:4] == b"\x7fELF"
        for file in ("man/man1/gpuwatch.1", "bash-completion/completions/gpuwatch", "zsh/site-functions/_gpuwatch", "fish/vendor_completions.d/gpuwatch.fish"):
            assert f"{data}/data/share/{file}" in members
        sources = {str(path.relative_to(ROOT / "python")) for path in (ROOT / "python/gpuwatch").rglob("*.py")}
        assert sources == {file for file in members if file.endswith(".py")}
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"\nName: gpuwatch-profiler\nVersion: {VERSION}\n" in metadata
        assert "\nProvides-Extra: export\n" in metadata and "\nProvides-Extra: pandas\n" in metadata
        assert not re.search("^Requires-Dist: [^;]*$", metadata, re.MULTILINE)  # without an extra, nothing is needed
        assert "Root-Is-Purelib: false" in archive.read(f"{info}/WHEEL").decode()
        for name in ("LICENSE", "third-party/simdjson.txt", "third-party/fmt.txt", "third-party/gcc-runtime.txt"):
            assert len(archive.read(f"{info}/licenses/{name}")) > 500
        listed = {row[0]: row[1] for row in csv.reader(archive.read(f"{info}/RECORD").decode().splitlines())}
        assert set(listed) == {name for name in members if not name.endswith("/")}
        for name, digest in listed.items():
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}", name


@pytest.mark.parametrize("kind", ["wheel", "tarball"])
def test_same_files_give_the_same_package(kind, prefix, tmp_path):
    others = {"environment": {"SOURCE_DATE_EPOCH": "1700000000"}}
    options = ["--platform", "linux_x86_64"] if kind == "wheel" else []
    made = []
    for name in ("once", "again"):
        copy = tmp_path / name / "prefix"
        shutil.copytree(prefix, copy, copy_function=shutil.copy)  # new times
        assert pack(kind, copy, tmp_path / name / "dist", *options, **others).returncode == 0
        made.append(next((tmp_path / name / "dist").iterdir()).read_bytes())
    assert made[0] == made[1]


def test_wheel_does_not_promise_too_much(prefix, tmp_path):
    """An analyzer as the compiler links it needs this machine's libstdc++ and glibc, so it is no manylinux wheel."""
    done = pack("wheel", prefix, tmp_path, "--platform", "manylinux_2_28_x86_64")
    assert done.returncode != 0
    assert "was removed, because auditwheel finds it fit for linux_x86_64 only" in done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_packages_are_small_and_stripped(prefix):
    for file, limit_mb in (("bin/gpuwatch", 8), ("lib/libgpuwatch.so", 2)):
        assert (prefix / file).stat().st_size < limit_mb * 1e6
        assert ".debug_" not in succeed("readelf", "-SW", prefix / file)


def test_pip_installs_into_an_environment(pip, wheel):
    folder = pip(wheel)
    check_installed(folder / "bin/gpuwatch", folder)
    linked = folder / "linked"  # as pipx and uv put it on the PATH
    linked.symlink_to(folder / "bin/gpuwatch")
    check_installed(linked, folder)
    check_module(folder / "bin/python", folder / "bin/gpuwatch", environment={"PATH": "/usr/bin:/bin"})
    succeed(folder / "bin/python", "-m", "pip", "uninstall", "-y", "gpuwatch-profiler")
    assert not list(folder.rglob("*gpuwatch.so"))


def test_pip_installs_for_a_user(wheel, tmp_path):
    """By the interpreter outside of the environment, which alone has a folder of the user."""
    outside = Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    environment = {"PYTHONUSERBASE": str(tmp_path), "PIP_BREAK_SYSTEM_PACKAGES": "1"}
    if run(outside, "-m", "pip", "--version").returncode:
        pytest.skip(f"{outside} has no pip")
    succeed(outside, "-m", "pip", "install", "--user", "--no-index", "--no-deps", wheel, environment=environment)
    check_installed(tmp_path / "bin/gpuwatch", tmp_path)
    check_module(outside, tmp_path / "bin/gpuwatch", environment={**environment, "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("option", ["--target", "--prefix"])
def test_pip_installs_into_a_folder(option, pip, wheel, tmp_path):
    pip(wheel, option, tmp_path / "place")
    check_installed(tmp_path / "place/bin/gpuwatch", tmp_path / "place")
    packages = next((tmp_path / "place").rglob("gpuwatch/__init__.py")).parents[1]
    check_module(sys.executable, tmp_path / "place/bin/gpuwatch", environment={"PYTHONPATH": str(packages), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("name", ["place", "a place: with blanks"])
def test_tarball_works_where_it_is_unpacked(name, tarball, tmp_path):
    place = tmp_path / name
    with tarfile.open(tarball) as archive:
        archive.extractall(place)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    check_installed(place / f"gpuwatch-{VERSION}-linux-x86_64/bin/gpuwatch", place, environment=environment)
    assert (tmp_path / "cache").exists() == (name != "place")


def test_link_for_a_folder_with_blanks_is_private(prefix, tmp_path):
    """A folder that others can write to is not used, and the next place is taken."""
    place = tmp_path / "a place"
    shutil.copytree(prefix, place)
    cache = tmp_path / "cache/gpuwatch"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    library = succeed(place / "bin/gpuwatch", "lib", environment={"XDG_CACHE_HOME": str(tmp_path / "cache")}).strip()
    assert library.startswith(f"/var/tmp/gpuwatch-{os.getuid()}/")
    assert Path(library).resolve() == (place / "lib/libgpuwatch.so").resolve()
    assert Path(library).parent.stat().st_mode & 0o077 == 0
    shutil.rmtree(Path(library).parent)


def test_without_a_library_it_says_what_to_do(prefix, tmp_path):
    program = tmp_path / "bin/gpuwatch"
    program.parent.mkdir()
    shutil.copy(prefix / "bin/gpuwatch", program)
    done = run(program, "run", "true")
    assert done.returncode == 2
    assert done.stderr == f"gpuwatch: libgpuwatch.so is not in {tmp_path / 'lib'}: build or install all of gpuwatch\n"


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_other_installers(tool, wheel, tmp_path):
    command = shutil.which(tool)
    if not command:
        pytest.skip(f"{tool} is not installed")
    environment = {
        "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin"), "UV_PYTHON": sys.executable, "UV_OFFLINE": "1",
        "PIPX_HOME": str(tmp_path / "tools"), "PIPX_BIN_DIR": str(tmp_path / "bin"), "PIPX_MAN_DIR": str(tmp_path / "man"),
    }  # fmt: skip
    succeed(command, *(("tool",) if tool == "uv" else ()), "install", wheel, environment=environment)
    check_installed(tmp_path / "bin/gpuwatch", tmp_path)
