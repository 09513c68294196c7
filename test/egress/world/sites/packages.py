"""Makes the packages that the registries serve: leaf.whl, leaf-go.zip, leaf.crate, leaf.tgz. The argument is the folder."""
import io, sys, tarfile, zipfile

folder = sys.argv[1]


def archive(name, files, kind):
    if kind == 'zip':
        with zipfile.ZipFile('%s/%s' % (folder, name), 'w') as out:
            for path, text in files.items():
                out.writestr(path, text)
        return
    with tarfile.open('%s/%s' % (folder, name), 'w:gz') as out:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(text)
            entry.mode = 0o644
            out.addfile(entry, io.BytesIO(text.encode()))


info = 'leaf-1.0.dist-info'
archive('leaf.whl', {
    'leaf.py': 'LEAF = "python"\n',
    info + '/METADATA': 'Metadata-Version: 2.1\nName: leaf\nVersion: 1.0\n',
    info + '/WHEEL': 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    info + '/RECORD': 'leaf.py,,\n%s/METADATA,,\n%s/WHEEL,,\n%s/RECORD,,\n' % (info, info, info),
}, 'zip')
module = 'go.allowed.example/leaf'
archive('leaf-go.zip', {
    module + '@v1.0.0/go.mod': 'module %s\n\ngo 1.20\n' % module,
    module + '@v1.0.0/leaf.go': 'package leaf\n\nconst Leaf = "go"\n',
}, 'zip')
archive('leaf.crate', {
    'leaf-1.0.0/Cargo.toml': '[package]\nname = "leaf"\nversion = "1.0.0"\nedition = "2021"\n',
    'leaf-1.0.0/src/lib.rs': 'pub const LEAF: &str = "rust";\n',
}, 'tar')
archive('leaf.tgz', {
    'package/package.json': '{"name":"leaf","version":"1.0.0","main":"index.js"}\n',
    'package/index.js': 'module.exports = "node"\n',
}, 'tar')
