"""The command line, `eagerjit` or `python -m eagerjit`: `env`, `cache ...`, `run`, `check`, `api` or `coverage`."""

from __future__ import annotations

import argparse
import functools
import io
import platform
import sys
import time
import zipfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType

import eagerjit
from eagerjit import version
from eagerjit.runtime import blas, cache, cpu, layout, memory

_PACKAGES = ("numpy", "llvmlite", "scipy-openblas32", "ml_dtypes", "triton")
_MEBI = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    return int(options.command(options))


def _failed(error: object) -> int:
    print(f"eagerjit: {error}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="eagerjit", description="Environment, cache, scripts.")
    commands = parser.add_subparsers(required=True, metavar="command")

    commands.add_parser("env", help="what eagerjit runs on").set_defaults(command=_env)

    of_cache = commands.add_parser("cache", help="the disk cache of compiled code")
    group = of_cache.add_subparsers(required=True, metavar="action")
    group.add_parser("stats", help="where it is and how large").set_defaults(command=_stats)
    group.add_parser("clear", help="delete every entry").set_defaults(command=_clear)
    export = group.add_parser("export", help="write all entries into one file")
    export.set_defaults(command=_export)
    export.add_argument("file")
    import_ = group.add_parser("import", help="add a file's entries: machine code, so import what you would run")
    import_.set_defaults(command=_import)
    import_.add_argument("file")
    group.add_parser("warm", help="compile the most common eager operations ahead").set_defaults(command=_warm)

    run = commands.add_parser("run", help="run a script, with eagerjit for its torch")
    run.set_defaults(command=_run)
    run.add_argument("--explain", metavar="DIR", type=Path, help="leave reports on compiled functions here")
    run.add_argument("-m", dest="module", action="store_true", help="the script is a module's name")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER)

    check = commands.add_parser("check", help="list the names of torch that scripts use and eagerjit lacks")
    check.set_defaults(command=_check)
    check.add_argument("script", type=Path, nargs="+")

    coverage = commands.add_parser("coverage", help="which names of a table exist, and what is tested of them")
    coverage.set_defaults(command=_coverage)
    coverage.add_argument("table", type=Path, help="lines of tab-separated name and number of programs that use it")
    coverage.add_argument("--programs", type=int, default=3, help="leave out names that fewer programs use")
    api = commands.add_parser("api", help="write the page of all public names")
    api.set_defaults(command=_api)
    api.add_argument("page", type=Path, nargs="?", help="where to; printed without")
    return parser


def _api(options: argparse.Namespace) -> int:
    from eagerjit.tools.catalogue import page

    if options.page is None:
        print(page())
    else:
        options.page.write_text(page())
    return 0


def _env(options: argparse.Namespace) -> int:
    print(environment())
    return 0


def environment() -> str:
    """One line per fact that a report of a problem should have."""
    versions = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    lines = {
        "eagerjit": version.eagerjit,
        "python": f"{platform.python_version()} ({platform.python_implementation()}) on {platform.platform()}",
        "packages": versions,
        "processor": f"{cpu.cpu_name()}, vectors of {cpu.vector_width_bits()} bits",
        "threads": str(eagerjit.get_num_threads()),
        "blas": blas.report(),
        "native": layout.status(),
        "memory": f"up to {memory.cache_limit() // _MEBI} MiB kept for reuse",
        "cache": _described_cache(),
    }
    return "\n".join(f"{name + ':':<11}{text}" for name, text in lines.items())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _described_cache() -> str:
    stats = cache.stats()
    size = f"{stats['entries']} entries, {int(stats['bytes']) / _MEBI:.1f} of {cache.size_limit() // _MEBI} MiB"
    state = "" if cache.enabled() else "off (EAGERJIT_CACHE=0); "
    return f"{state}{stats['directory']}: {size}"


def _stats(options: argparse.Namespace) -> int:
    print(_described_cache())
    return 0


def _clear(options: argparse.Namespace) -> int:
    print(f"deleted {cache.clear()} entries of {cache.directory()}")
    return 0


def _export(options: argparse.Namespace) -> int:
    try:
        count = cache.export_to(options.file)
    except OSError as error:
        return _failed(error)
    print(f"wrote {count} entries to {options.file}")
    return 0


def _import(options: argparse.Namespace) -> int:
    try:
        count = cache.import_from(options.file)
    except (OSError, zipfile.BadZipFile) as error:
        return _failed(f"{options.file}: {error}")
    print(f"added {count} entries to {cache.directory()}")
    return 0


def _warm(options: argparse.Namespace) -> int:
    from eagerjit.compiled.warm import warm

    if not cache.enabled():
        return _failed("the cache is off (EAGERJIT_CACHE=0): there is nowhere to keep what is compiled")
    started = time.perf_counter()
    calls = warm()
    stats = cache.stats()
    took = time.perf_counter() - started
    print(f"{calls} calls in {took:.1f} s: {stats['writes']} programs compiled, {stats['hits']} were there already")
    return 0


def _run(options: argparse.Namespace) -> int:
    """Run a script as Python would, with its arguments and folder; its torch is eagerjit."""
    from eagerjit import jit, standin
    from eagerjit.compiled import explain

    script = Path(options.script)
    if not options.module and not script.is_file():
        return _failed(f"there is no script {script}")
    if options.explain:
        jit.on_compiled = functools.partial(explain.leave_report, options.explain)
    if options.module:
        return _run_module(options.script, options.arguments)
    sys.argv = [str(script), *options.arguments]
    sys.path[0] = str(script.resolve().parent)
    standin.install()
    with io.open_code(str(script)) as file:
        code = compile(file.read(), str(script), "exec")
    main = ModuleType("__main__")
    main.__file__, main.__builtins__ = str(script), __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    exec(code, main.__dict__)
    return 0


def _run_module(name: str, arguments: list[str]) -> int:
    """Run a module as `python -m` would; those of torch that can be run have a `main`."""
    import runpy

    from eagerjit import standin

    standin.install()
    sys.argv, sys.path[0] = [name, *arguments], str(Path.cwd())
    if not name.startswith("torch."):
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return 0
    main = getattr(standin.module_for(name), "main", None)
    if main is None:
        return _failed(f"there is no module {name} that can be run")
    main()
    return 0


def _check(options: argparse.Namespace) -> int:
    """Print what is missing, by line; the status is 1 if a program needs any of it."""
    from eagerjit.tools.usage import missing_names

    needed = 0
    for script in options.script:
        try:
            missing = missing_names(script)
        except (OSError, SyntaxError, ValueError) as error:
            return _failed(f"{script}: {error}")
        print(*missing, sep="\n", end="\n" if missing else "")
        needed += sum(not m.caught for m in missing)
    return min(needed, 1)


def _coverage(options: argparse.Namespace) -> int:
    """Print the missing names by rank, how many exist, and what is tested of them."""
    from eagerjit.tools.names import coverage, names_in, summary

    try:
        lines = options.table.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        return _failed(f"{options.table}: {error}")
    total, missing = coverage(lines, options.programs)
    for rank, name, programs in missing:
        print(f"{rank:4}  {programs:4} programs  {name}")
    print(f"{total - len(missing)} of {total} names in scope exist: {100 * (1 - len(missing) / max(total, 1)):.1f}%")
    print(*summary(name for _, name, _ in names_in(lines, options.programs)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
