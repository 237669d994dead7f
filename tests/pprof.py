"""Reads the profiles of `smolder record -o x.pb.gz`: stacks with addresses, not only names.

    for s in pprof.read(path):
        s.count, s.value, s.labels["pid"], s.frames  # value: ns, …; frames[0] is the leaf
        s.frames[0].name, .file, .addr            # file: None for code without one, such as a JIT's

An address is that of the file (its segments' virtual addresses), or of the process where there is no
file. Of a caller it is one byte before the return address. A frame without an address is no code:
it says that something is missing.
"""
import collections
import gzip

Frame = collections.namedtuple("Frame", "name file addr")
Stack = collections.namedtuple("Stack", "count labels frames value")


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data):
    """(field number, integer or bytes), in order"""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            size, at = _varint(data, at)
            value = data[at:at + size]
            at += size
        yield key >> 3, value


def _all(value):
    """Of a repeated integer, packed or one by one."""
    if isinstance(value, int):
        return [value]
    out, at = [], 0
    while at < len(value):
        n, at = _varint(value, at)
        out.append(n)
    return out


def read(path):
    with gzip.open(path) as f:
        data = f.read()
    samples, mappings, locations, functions, strings = [], {}, {}, {}, []
    for field, value in _fields(data):
        if field == 2:
            samples.append(value)
        elif field == 3:
            m = dict(_fields(value))
            mappings[m.get(1, 0)] = m.get(5, 0)
        elif field == 4:
            m = list(_fields(value))
            one = dict(m)
            lines = [dict(_fields(v)) for k, v in m if k == 4]
            locations[one[1]] = (one.get(2, 0), one.get(3, 0), lines[-1].get(1, 0) if lines else 0)
        elif field == 5:
            m = dict(_fields(value))
            functions[m[1]] = m.get(2, 0)
        elif field == 6:
            strings.append(value.decode("utf-8", "replace"))

    files = {i: strings[s] for i, s in mappings.items()}
    frames = {}
    for i, (mapping, addr, function) in locations.items():
        file = files.get(mapping)
        frames[i] = Frame(strings[functions[function]] if function else "",
                          None if file == "[jit]" else file, addr)
    stacks = []
    for sample in samples:
        ids, values, labels = [], [], {}
        for field, value in _fields(sample):
            if field == 1:
                ids += _all(value)
            elif field == 2:
                values += _all(value)
            elif field == 3:
                label = dict(_fields(value))
                labels[strings[label[1]]] = strings[label.get(2, 0)]
        stacks.append(Stack(values[0], labels, [frames[i] for i in ids], values[-1]))
    return stacks
