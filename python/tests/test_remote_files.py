"""Files that fsspec opens: local URLs, memory, HTTP with and without ranges, and errors."""

import functools
import gzip
import http.server
import sys
import threading

import numpy as np
import pytest

import karez as kz
from karez import data

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs.clear()
    system.pseudo_dirs.append("")


def read(dataset):
    """The elements of an epoch, which are also read from the position after the first one."""
    with dataset.iterator() as iterator:
        loop = iterator.as_numpy()
        first = next(loop)
        state = iterator.state()
        rest = list(loop)
    with dataset.iterator() as again:
        again.load_state(state)
        assert repr(list(again.as_numpy())) == repr(rest)
    return [first, *rest]


def test_formats_read_files_in_memory(memory):
    memory.pipe("/d/a.txt", b"one\ntwo\n")
    memory.pipe("/d/b.txt", b"three")
    memory.pipe("/d/c.txt.gz", gzip.compress(b"four\nfive"))
    memory.pipe("/d/x.csv", b"a,b\n1,2\n3,4\n")
    assert read(data.from_text("memory://d/*.txt")) == ["one", "two", "three"]
    assert read(data.from_text(["memory://d/c.txt.gz", "memory://d/b.txt"])) == ["four", "five", "three"]
    assert read(data.from_csv("memory://d/x.csv", {"b": kz.int32})) == [{"b": 2}, {"b": 4}]
    assert list(data.list_files("memory://d/[ab].txt")) == ["memory:///d/a.txt", "memory:///d/b.txt"]
    files = data.list_files("memory://d/*.txt").shard(2, 1).interleave(data.from_text, parallel=True)
    assert list(files) == ["three"]


def test_rows_of_remote_arrays_are_a_stream(memory, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6).reshape(3, 2))
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    for name in ("a.npy", "a.npz"):
        memory.pipe(f"/{name}", (tmp_path / name).read_bytes())
    assert [row.tolist() for row in read(data.from_npy("memory://a.npy"))] == [[0, 1], [2, 3], [4, 5]]
    assert [int(row["x"]) for row in read(data.from_npz("memory://a.npz"))] == [0, 1, 2]


def test_a_url_may_name_a_local_file_and_other_paths_may_be_local(tmp_path):
    (tmp_path / "a.txt").write_text("1\n2")
    (tmp_path / "b.txt").write_text("3")
    assert read(data.from_text(f"file://{tmp_path}/a.txt")) == ["1", "2"]
    assert read(data.from_text([f"file://{tmp_path}/a.txt", tmp_path / "b.txt"])) == ["1", "2", "3"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Ranges(Quiet):
    """Serves parts of files, as most servers do."""

    def do_GET(self):
        wanted = self.headers.get("Range")
        if wanted is None:
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as file:
            content = file.read()
        begin, end = wanted.removeprefix("bytes=").split("-")
        end = min(int(end or len(content)), len(content) - 1)
        part = content[int(begin) : end + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {begin}-{end}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)

    def end_headers(self):
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()


@pytest.mark.parametrize("handler", [Quiet, Ranges])
def test_formats_read_from_a_server(tmp_path, handler):
    pytest.importorskip("aiohttp")
    (tmp_path / "a.txt").write_text("\n".join(map(str, range(1000))))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"x\ny"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=tmp_path))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert read(data.from_text(f"{url}/a.txt")) == list(map(str, range(1000)))
        assert read(data.from_text([f"{url}/b.txt.gz"])) == ["x", "y"]
        with pytest.raises(kz.DataError, match="cannot read http://127.0.0.1:.*none.txt"):
            list(data.from_text(f"{url}/none.txt"))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_missing_files_are_errors_or_skipped(memory):
    memory.pipe("/a.txt", b"1\n")
    with pytest.raises(kz.DataError, match="cannot read memory://none.txt"):
        list(data.from_text("memory://none.txt"))
    with pytest.raises(kz.DataError, match=r"from_text: no file matches 'memory://\*.csv'"):
        data.from_text("memory://*.csv")
    with pytest.warns(RuntimeWarning, match="1 damaged records or files were skipped; .*none.txt"):
        assert list(data.from_text(["memory://none.txt", "memory://a.txt"], on_error="skip")) == ["1"]
    with pytest.raises(Exception, match="nowhere"):
        list(data.from_text("nowhere://a.txt"))


def test_an_error_of_a_file_object_names_the_file(memory, monkeypatch):
    from karez.data import formats

    class Broken:
        def read(self, size):
            raise OSError("the line is cut")

        def close(self):
            pass

    monkeypatch.setattr(formats, "open_stream", lambda path, offset: Broken())
    with pytest.raises(kz.DataError, match="cannot read memory://a.txt: the line is cut"):
        list(data.from_text("memory://a.txt"))


def test_without_fsspec_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        kz.UserError, match="from_text: to read 'memory://a.txt' needs the package fsspec: pip install fsspec"
    ):
        data.from_text("memory://a.txt")
