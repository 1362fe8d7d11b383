# SPDX-License-Identifier: Apache-2.0
import multiprocessing, os, time, struct
import pytest
from policyc.runtime.clock import ticks_per_second
from policyc.runtime.connection_cache import WAYS, ENTRY
from tests.kernel import connection_tables
from tests.kernel.connection_tables import ENTRIES_AT
from tests.kernel.node_under_test import A, B, LOCAL, NodeUnderTest
from tests.kernel.packets import ACK, FIN, SYN, frame, tcp, udp
from tests.kernel.table_policy import ANY
from tests.kernel.test_connection_cache import *
from tests.kernel.test_connection_cache import TAKEN, TICK, THERE
from tests.kernel.test_connections_at_once import at_once, FILLED, settled
from tests.kernel.conftest import *

MEND = {"ct_new_way.h": [
 ("age = (__u32)(now + 1 - head->used[i]);", "age = (__u32)(now + 1 + 32768 - head->used[i]);"),
 ("age > PC_ICMP_OTHER * second", "age > PC_ICMP_OTHER * second + 32768"),
 ("((now - word) & PC_NEW_TICK) <= PC_NEW_STALE * second;", "((now + 32768 - word) & PC_NEW_TICK) <= PC_NEW_STALE * second + 32768;"),
 ("static __always_inline __u64 pc_new_over(const struct pc_ct *ct,", "static __always_inline __u64 pc_new_over(const struct pc_new_head *head, const struct pc_ct *ct,"),
 ("pc_new_over(ct, way, now)", "pc_new_over(head, ct, way, now)"),
 ("is_over = (__s64)(ct[i].expires - 1 - now) >> 63;", "is_over = (__s64)(ct[i].expires - 1 - now) >> 63 & -(__u64)(head->tag[i] >> 31);"),
], "ct_new_put.h": [("before >> i & 1 || i > way ? i", "before >> i & 1 || (i > way && !(before >> way & 1)) ? i")]}
DAWDLE = "for (int j = 0; j < %d; j++) (void)*(volatile __u64 *)&(__u64){bpf_ktime_get_ns()};"

for _n in list(globals()):
    if _n.startswith("test_"): del globals()[_n]

pytestmark = pytest.mark.kernel
import shutil
from tests.kernel import conftest as _c
@pytest.fixture
def variant(objects, tmp_path):
    def make(name, edits):
        source = tmp_path / f"{name}-source"
        shutil.copytree(_c.DATAPATH, source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        edits = {f: (list(p) if isinstance(p, list) else [p]) for f, p in edits.items()}
        for f, p in MEND.items(): edits[f] = p + edits.get(f, [])
        for file, pairs in edits.items():
            text = (source / file).read_text()
            for old, new in (pairs if isinstance(pairs, list) else [pairs]):
                assert old in text, old
                text = text.replace(old, new)
            (source / file).write_text(text)
        target = tmp_path / name
        target.mkdir()
        include = f"-I{source}"
        _c.compile_c(source / "hooks.bpf.c", target / "hooks.bpf.o", include)
        shutil.copy(_c.HERE / "policy.bpf.c", source / "policy.bpf.c")
        _c.compile_c(source / "policy.bpf.c", target / "policy.bpf.o", include)
        return target
    return make

def test_e1_taken_at_a_later_tick(node, variant):
    node.objects = variant('m', {})
    first, second, *others = filled(node, 4)
    word = TAKEN | now_of(node, 4) + ticks_per_second() & TICK
    tag(node, 4, 5, 0, word)
    assert node.sent_by("a", question(2000, 4))
    assert tags(node, 4, 5)[0] == word

def test_e1b_used_later_is_not_oldest(node, variant):
    node.objects = variant('m', {})
    first, *others = filled(node, 4)
    age(node, 4, 5, 7, -ticks_per_second())   # put by a CPU whose clock was read later
    assert node.sent_by("a", question(2000, 4))
    assert others[-1] in where(node, 4)

def test_e3_over_and_taken(node, variant):
    node.objects = variant('m', {})
    filled(node, 4)
    for way in range(WAYS):
        age(node, 4, 5, way, 6 * ticks_per_second())
    expire(node, 4, 5, 4)
    tag(node, 4, 5, 4, TAKEN | now_of(node, 4) + 6*ticks_per_second() & TICK)
    sent = node.sent_by("a", question(2000, 4))
    print(node.drops())
    assert sent

def pair(work, rounds):
    ctx = multiprocessing.get_context("fork")
    bar = ctx.Barrier(2)
    cpus = sorted(os.sched_getaffinity(0))
    def go(cpu, me):
        os.sched_setaffinity(0, {cpu})
        for _ in range(rounds):
            bar.wait(); work[me]()
    return ctx, cpus, go

def test_e2_both_gone(node, variant):
    slow = variant("slowpub", {"ct_new_put.h": [
        (FILLED, f"{FILLED} {{ {DAWDLE % 200} }}"),
        ("others = pc_new_same(head, tag) & ~(1U << way);", f"{{ {DAWDLE % 200} }} others = pc_new_same(head, tag) & ~(1U << way); {{ {DAWDLE % 200} }}")]} )
    node.load(node.policy().allow("a", "b", ANY), objects=slow)
    one_set(node)
    syn = frame(A, B, tcp(1000, 80, SYN)); fin = frame(A, B, tcp(1000, 80, FIN | ACK)); ans = frame(B, A, tcp(80, 1000, ACK))
    fill = [frame(A, B, tcp(p, 80, SYN)) for p in range(2000, 2000 + WAYS)]
    ctx = multiprocessing.get_context("fork"); bar = ctx.Barrier(3)
    ok = ctx.Value("i", 0)
    cpus = sorted(os.sched_getaffinity(0)); N = 600
    def go(cpu):
        os.sched_setaffinity(0, {cpu})
        for _ in range(N):
            bar.wait()
            r = node.sent_by("a", syn)
            with ok.get_lock(): ok.value += bool(r)
            bar.wait()
    kids = [ctx.Process(target=go, args=(c,)) for c in (cpus[0], cpus[-1])]
    gone = both = 0
    for k in kids: k.start()
    for _ in range(N):
        for f in fill: node.sent_by("a", f)
        node.sent_by("a", syn); node.sent_by("a", fin)
        full = all(tags(node, 4, 5))
        ok.value = 0
        bar.wait(); bar.wait()
        if ok.value == 2 and full:
            both += 1
            if not node.sent_by("b", ans): gone += 1
    for k in kids: k.join()
    print("rounds", both, "neither stayed", gone)
    assert gone == 0

def test_e4_reader_misses(node, variant):
    slow = variant("slowfind", {"ct_map.h": [("at.ct = pc_new4_find(&key.v4);\n\t\tif (!at.ct && surely) {", "at.ct = pc_new4_find(&key.v4);\n\t\tif (!at.ct && surely) at.ct = pc_new4_find(&key.v4);\n\t\tif (!at.ct && surely) {")], "ct_new.h": (
        "way = pc_new_way(&set->head, tag);\n\tif (pc_new4", f"way = pc_new_way(&set->head, tag); {{ {DAWDLE % 20} }}\n\tif (pc_new4")})
    node.load(node.policy().allow("a", "b", ANY), objects=slow)
    one_set(node)
    first = {p: frame(A, B, tcp(p, 80, SYN)) for p in range(1000, 1004)}
    last = {p: frame(A, B, tcp(p, 80, FIN | ACK)) for p in first}
    answers = {p: frame(B, A, tcp(80, p, ACK)) for p in first}
    for p in first.values(): assert node.sent_by("a", p)
    def work(number):
        port = 1000 + number // 2 % 4
        sent = node.sent_by("a", first[port]) and node.sent_by("b", answers[port])
        return node.sent_by("a", last[port]) and sent
    done, wrong = at_once(work)
    print(done, wrong)
    assert wrong == 0

def test_e5_whole_when_clock_moves(node, variant):
    """As test_what_is_found_is_whole..., with the tick read some time before the way is taken."""
    from tests.kernel.service_yaml import PORT, TARGET, VIP, web
    slow = variant("slowtick", {"ct_new_put.h": [
        (FILLED, f"{FILLED} {{ {DAWDLE % 200} }}"),
        ("__noinline int pc_new_put", "static long pc_idle_cb(__u32 i, void *c) { (void)i; (void)c; (void)bpf_ktime_get_ns(); return 0; }\n__noinline int pc_new_put"),
        ("tag = pc_new_tag_of(hash);\n\tbefore", "tag = pc_new_tag_of(hash); if (!(bpf_get_prandom_u32() & 31)) bpf_loop(400000, pc_idle_cb, 0, 0);\n\tbefore")]})
    node.load(node.policy().allow("a", "b", ANY), objects=slow, services=web(B))
    one_set(node)
    def work(number):
        port = 1024 + number % 60000
        if not node.sent_by("a", frame(A, VIP, tcp(port, PORT, SYN))): return False
        came = node.arrives("a", frame(B, A, tcp(TARGET, port, SYN | ACK)), came_in=LOCAL["b"])
        return came is None or struct.unpack_from("!HH", came, 34) == (PORT, port)
    done, wrong = at_once(work)
    print("done", done, "wrong", wrong, node.drops())
    bad = 0
    fields = node.layout("pc_ct").fields
    for key, entry in connection_tables.entries(pin(node, 4)).items():
        (client,) = set(struct.unpack_from("!HH", key, 8)) - {PORT, TARGET}
        (state,) = struct.unpack_from("=I", entry, fields["state"][0])
        end = fields["src" if state & 1024 else "dst"][0]
        bad += struct.unpack_from("!H", entry, end + 10) != (client,)
    print("entries of another connection", bad)
    assert wrong == 0 and not bad

def test_e6_stolen_while_written(node, variant):
    """A (port 3000) writes a way for 40 ms; B (port 3001) read the tick 15 ms before A took it."""
    from tests.kernel.service_yaml import PORT, TARGET, VIP, web
    loop = "bpf_loop(%d, pc_idle_cb, 0, 0);"
    slow = variant("slowsteal", {"ct_new_put.h": [
        ("__noinline int pc_new_put", "static long pc_idle_cb(__u32 i, void *c) { __u64 *u = c; (void)i; (void)u; (void)bpf_ktime_get_ns(); return 0; }\n__noinline int pc_new_put"),
        (FILLED, "{ __u64 u = 0; if (t->sport == bpf_htons(3000)) bpf_loop(1000000, pc_idle_cb, &u, 0); }\n" + FILLED),
        ("tag = pc_new_tag_of(hash);\n\tbefore", "tag = pc_new_tag_of(hash); { __u64 u = 0; if (t->sport == bpf_htons(3001)) bpf_loop(600000, pc_idle_cb, &u, 0); }\n\tbefore")]})
    node.load(node.policy().allow("a", "b", ANY), objects=slow, services=web(B))
    one_set(node)
    ctx = multiprocessing.get_context("fork"); bar = ctx.Barrier(2)
    cpus = sorted(os.sched_getaffinity(0))
    fields = node.layout("pc_ct").fields
    def go(cpu, port, delay):
        os.sched_setaffinity(0, {cpu})
        bar.wait()
        if delay: time.sleep(delay)
        print(port, "passed", bool(node.sent_by("a", frame(A, VIP, tcp(port, PORT, SYN)))), flush=True)
    bad = 0
    for round in range(5):
        for p in range(5000 + 10 * round, 5004 + 10 * round):
            node.sent_by("a", frame(A, VIP, tcp(p, PORT, SYN)))
        kids = [ctx.Process(target=go, args=(cpus[0], 3001, 0)), ctx.Process(target=go, args=(cpus[-1], 3000, 0.010))]
        for k in kids: k.start()
        for k in kids: k.join()
        for key, entry in connection_tables.entries(pin(node, 4)).items():
            (client,) = set(struct.unpack_from("!HH", key, 8)) - {PORT, TARGET}
            (state,) = struct.unpack_from("=I", entry, fields["state"][0])
            end = fields["src" if state & 1024 else "dst"][0]
            said, = struct.unpack_from("!H", entry, end + 10)
            if said != client: bad += 1; print("key of", client, "entry of", said)
    print(node.drops())
    assert not bad
