"""The folder that a sandbox and its boxes share, seen from the host. What a box planted there is hostile: each component
of a path is opened without following links, only regular files are read or written, and nothing waits for a FIFO."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from typing import Dict, Iterator, List, Optional, Tuple, Union

from ._errors import SandboxError
from ._result import FileInfo

DEPS = ".deps"
CODE_PREFIX = ".kern-code-"
ARGUMENT_LIMIT = 128 << 10  # the kernel's limit for one argument
INFLATED_LIMIT = 1 << 30
DEPTH_LIMIT = 200  # folders: each that is open costs a descriptor, and what a box made decides how many
CLOSED = "the sandbox was closed while the call ran"
Seen = Dict[str, Tuple[int, int, int]]


def _parts(path: object) -> List[str]:
    if not isinstance(path, (str, os.PathLike)):
        raise SandboxError(f"a path in the workspace is a string, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text or not _is_name(text):
        raise SandboxError(f"{text!r} is not a usable path")
    if text.startswith("/workspace/"):
        text = text[len("/workspace/"):]
    if text.startswith("/"):
        raise SandboxError(f"{text!r} leaves the workspace: give a path relative to it")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SandboxError(f"{text!r} leaves the workspace: no '..' is followed")
    return parts


def _is_name(text: str) -> bool:
    try:
        os.fsencode(text)  # where a name is not UTF-8, a lone surrogate stands for each byte that is none
        return True
    except UnicodeEncodeError:
        return False


def _hidden(name: str, top: bool) -> bool:
    return top and (name == DEPS or name.startswith(CODE_PREFIX))


class Workspace:
    def __init__(self, path: Optional[str]) -> None:
        self.mine = path is None
        try:
            self.path = tempfile.mkdtemp(prefix="kern-workspace-") if path is None else path
        except OSError as problem:
            raise SandboxError(f"workspace: cannot make a temporary one: {problem}; TMPDIR names where they go") from None
        try:
            self.fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as problem:
            raise SandboxError(f"workspace: cannot open {self.path!r}: {problem.strerror}") from None
        self.counter = 0

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            if self.mine:
                remove_tree(self.path)

    # ---- Files by name

    def _folder(self, parts: List[str], make: bool) -> int:
        """The directory that holds the last part, opened component by component."""
        current = os.dup(self.fd)
        try:
            for part in parts:
                if make:
                    try:
                        os.mkdir(part, 0o777, dir_fd=current)  # what is left of it the umask says, or a default ACL
                    except FileExistsError:
                        pass
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
                os.close(current)
                current = below
            return current
        except BaseException:
            os.close(current)
            raise

    def _open(self, path: object, flags: int) -> int:
        parts = _parts(path)
        if not parts:
            raise SandboxError(f"{path!r} names the workspace itself, not a file")
        make = bool(flags & os.O_CREAT)
        try:
            folder = self._folder(parts[:-1], make)
            try:
                found = os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=folder)
            finally:
                os.close(folder)
        except FileNotFoundError:
            raise FileNotFoundError(f"the workspace has no file {path!r}") from None
        except OSError as problem:
            raise SandboxError(f"cannot open {path!r} in the workspace: {problem.strerror} (links, FIFOs and devices are "
                               "not followed)") from None
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            raise SandboxError(f"{path!r} in the workspace is not a regular file")
        return found

    def write(self, path: object, data: Union[str, bytes, bytearray, memoryview]) -> None:
        if isinstance(data, str):
            try:
                data = data.encode("utf-8")
            except UnicodeEncodeError:
                raise SandboxError("write_file: the data has a lone surrogate, which is no text") from None
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise SandboxError(f"write_file: the data is a string or bytes, not {type(data).__name__}")
        with open(self._open(path, os.O_WRONLY | os.O_CREAT), "wb") as file:
            os.ftruncate(file.fileno(), 0)
            try:
                file.write(data)
                file.flush()
            except OSError as problem:
                raise SandboxError(f"cannot write {path!r} in the workspace: {problem.strerror}") from None

    def read(self, path: object, limit: Optional[int] = None) -> bytes:
        with open(self._open(path, os.O_RDONLY), "rb") as file:
            if limit is not None and os.fstat(file.fileno()).st_size > limit:
                raise SandboxError(f"{path!r} in the workspace is larger than {limit >> 20} MiB")
            return file.read()

    def add_code(self, code: str, suffix: str) -> str:
        """Puts a long script where the box can read it; its name. remove() takes it away."""
        self.counter += 1
        name = f"{CODE_PREFIX}{os.getpid()}-{self.counter}-{os.urandom(4).hex()}{suffix}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(name, flags, 0o666, dir_fd=self.fd), "w", encoding="utf-8", errors="surrogatepass") as file:
                file.write(code)
        except OSError as problem:
            self.remove(name)
            raise SandboxError(f"code of {ARGUMENT_LIMIT >> 10} KiB and more goes by a file in the workspace, which cannot be written: "
                               f"{problem.strerror}") from None
        return name

    def remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self.fd)
        except OSError:
            pass

    def make_deps(self) -> None:
        try:
            try:
                os.mkdir(DEPS, 0o777, dir_fd=self.fd)
            except FileExistsError:
                pass
            os.close(self._folder([DEPS], False))  # a link planted there is refused
        except OSError as problem:
            raise SandboxError(f"setup: cannot make {DEPS!r} in the workspace: {problem.strerror}") from None

    def has_deps(self) -> bool:
        try:
            return stat.S_ISDIR(os.stat(DEPS, dir_fd=self.fd, follow_symlinks=False).st_mode)
        except OSError:
            return False

    # ---- All files

    def _walk(self, folder: int, prefix: str, hide: bool, depth: int = 0) -> Iterator[Tuple[str, Optional[os.stat_result]]]:
        with os.scandir(folder) as entries:
            listed = list(entries)
        for entry in listed:
            if hide and _hidden(entry.name, prefix == ""):
                continue
            path = prefix + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth == DEPTH_LIMIT:
                        yield path, None
                        continue
                    below = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                    try:
                        yield from self._walk(below, path + "/", hide, depth + 1)
                    finally:
                        os.close(below)
                elif entry.is_file(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile, or closed to us

    def walk(self, hide: bool = True) -> Iterator[Tuple[str, Optional[os.stat_result]]]:
        """Every file; and every folder that is too deep to look into, with None."""
        # Calls at once share self.fd, and with it how far somebody has read: each reading needs an opening of its own.
        if self.fd < 0:
            raise SandboxError(CLOSED)
        own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            yield from self._walk(own, "", hide)
        finally:
            os.close(own)

    def seen(self) -> Seen:
        return {path: (info.st_ctime_ns, info.st_size, info.st_ino) for path, info in self.walk() if info is not None}

    def changes(self, before: Seen) -> List[FileInfo]:
        found = []
        for path, now in self.seen().items():
            then = before.get(path)
            if then != now:
                found.append(FileInfo(path, now[1], "created" if then is None else "modified"))
        return sorted(found, key=lambda info: info.path)

    def list(self, before: Seen) -> List[FileInfo]:
        return sorted((FileInfo(path, info.st_size, "modified" if path in before else "created")
                       for path, info in self.walk() if info is not None), key=lambda info: info.path)

    def size(self) -> int:
        """The bytes on disk; what is too deep to look into counts as more than any limit."""
        return sum(1 << 62 if info is None else info.st_blocks * 512 for _, info in self.walk(False))

    # ---- Snapshots: gzip of ustar (long names by pax), regular files only

    def _to_keep(self) -> List[str]:
        """What a snapshot has: nothing is left out of one in silence, and none is made that restore() would refuse."""
        names, size = [], 0
        for path, info in self.walk(False):
            if info is None:
                raise SandboxError(f"snapshot: {path[:80]!r}... is below more than {DEPTH_LIMIT} folders")
            if not path.startswith(CODE_PREFIX):
                names.append(path)
                size += info.st_size + 2048
        if size > INFLATED_LIMIT:
            raise SandboxError(f"snapshot: the workspace has more than {INFLATED_LIMIT >> 20} MiB, which restore would refuse")
        return sorted(names)

    def snapshot(self, destination: "Union[str, os.PathLike[str]]") -> None:
        names = self._to_keep()
        with open(destination, "wb") as sink, gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=sink, mtime=0) as packed, \
                tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in names:
                try:
                    file = open(self._open(path, os.O_RDONLY), "rb")
                except (OSError, SandboxError):
                    continue
                with file:
                    data = file.read()
                member = tarfile.TarInfo(path)
                member.size, member.mode, member.mtime = len(data), 0o644, 0
                archive.addfile(member, io.BytesIO(data))

    def restore(self, source: "Union[str, os.PathLike[str]]") -> None:
        """Looks at every member before the first byte is written: what is refused changes nothing."""
        try:
            with open(source, "rb") as file:
                raw = gunzip(file.read(), INFLATED_LIMIT)
            members: List[Tuple[List[str], Optional[bytes]]] = []
            with tarfile.open(fileobj=io.BytesIO(raw), mode="r:", ignore_zeros=False, errorlevel=2) as archive:
                for member in archive:
                    parts = check_member(member)
                    if member.isdir():
                        members.append((parts, None))
                        continue
                    body = archive.extractfile(member)
                    data = b"" if body is None else body.read()
                    if len(data) != member.size:
                        raise SandboxError(f"snapshot: member {member.name!r} is cut off")
                    members.append((parts, data))
                if raw.count(0, archive.offset) != len(raw) - archive.offset:
                    raise SandboxError("snapshot: what follows the last member is no member: a bad checksum, or garbage")
        except (tarfile.TarError, OSError, EOFError, ValueError, zlib_error) as problem:
            raise SandboxError(f"cannot restore {os.fspath(source)!r}: {problem}") from None
        for parts, content in members:
            try:
                if content is None:
                    os.close(self._folder(parts, True))
                else:
                    self._replace(parts, content)
            except OSError as problem:
                raise SandboxError(f"cannot restore {'/'.join(parts)!r}: {problem.strerror} (links are not followed)") from None

    def _replace(self, parts: List[str], content: bytes) -> None:
        folder = self._folder(parts[:-1], True)
        try:
            try:
                os.unlink(parts[-1], dir_fd=folder)
            except FileNotFoundError:
                pass
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(parts[-1], flags, 0o666, dir_fd=folder), "wb") as file:
                file.write(content)
        finally:
            os.close(folder)


from zlib import error as zlib_error  # noqa: E402  (named where it is caught)


def gunzip(data: bytes, limit: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise SandboxError(f"snapshot: more than {limit >> 20} MiB when inflated")
    return raw


def check_member(member: tarfile.TarInfo) -> List[str]:
    name = member.name
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise SandboxError(f"snapshot: member {name!r} is neither a file nor a directory")
    if name.startswith("/") or "\0" in name:
        raise SandboxError(f"snapshot: member {name!r} is an absolute path")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise SandboxError(f"snapshot: member {name!r} has a '..'")
    if not parts and member.isreg():
        raise SandboxError("snapshot: a member has no name")
    if not 0 <= member.size <= INFLATED_LIMIT:
        raise SandboxError(f"snapshot: member {name!r} claims {member.size} bytes")
    return parts


def remove_tree(path: str) -> None:
    """Removes a folder that a box wrote into; directories without permissions are opened first."""

    def retry(_function: object, name: str, _info: object) -> None:
        try:
            os.chmod(os.path.dirname(name), 0o700)
            os.chmod(name, 0o700, follow_symlinks=False) if not os.path.islink(name) else None
        except (OSError, NotImplementedError):
            pass
        try:
            if os.path.isdir(name) and not os.path.islink(name):
                shutil.rmtree(name, ignore_errors=True)
            else:
                os.unlink(name)
        except OSError:
            pass

    try:
        shutil.rmtree(path, onerror=retry)
    except (OSError, RecursionError):
        pass
    if os.path.lexists(path):  # so deep a tree that Python gives up on it
        for words in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            try:
                subprocess.run([*words, "--", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            except OSError:
                pass
