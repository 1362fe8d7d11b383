# SPDX-License-Identifier: Apache-2.0
"""The Services of a cluster as a watch reports them, one object at a time.

    world = WatchedServices(own)
    world.take(event)           once per event
    world.changes()             site -> frontend before and after, for each change since

A site is an address, protocol and port. claims.py decides which Service gets a site that several ask
for, independent of the order of events.
"""

from dataclasses import dataclass, field

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import InputError
from policyc.runtime.services.all_objects import left_out
from policyc.runtime.services.claims import (
    Changes,
    Claims,
    Name,
    Ranges,
    Site,
    surroundings,
)
from policyc.runtime.services.limits import (
    Limits,
    asked_of,
)
from policyc.runtime.services.objects import (
    EndpointSlice,
    Service,
    named,
    objects,
)
from policyc.runtime.services.services import (
    Frontend,
    OwnNode,
    local_endpoints,
)
from policyc.runtime.state import Warn, unheard


class WatchError(InputError):
    """The API server ends a watch: later changes are unknown."""


@dataclass
class WatchedServices:
    """The node's wanted frontends, from the events so far."""

    own: OwnNode
    warn: Warn = unheard
    external: Ranges = ()
    health: dict[Name, tuple[int, dict[int, int]]] = field(default_factory=dict)
    """Per Service: its health check port, and the node's endpoints by family."""
    _services: dict[Name, Service] = field(default_factory=dict)
    _slices: dict[Name, EndpointSlice] = field(default_factory=dict)
    _by_service: dict[Name, dict[Name, EndpointSlice]] = field(default_factory=dict)
    _wrong: set[tuple[str, Name]] = field(default_factory=set)
    """Objects that stay as they were, by kind, and Services whose ports do ("ports")."""
    _touched: dict[Name, None] = field(default_factory=dict)
    _claims: Claims = field(init=False)
    _limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        self._claims, self._limits = Claims(self.warn), Limits(self.warn)

    @property
    def frontends(self) -> dict[Site, Frontend]:
        """The frontends of the last `changes`."""
        return self._claims.frontends

    @property
    def left_out(self) -> dict[str, int]:
        """What is not active, as all_objects.py counts it."""
        return left_out(self._claims, self._limits, len(self._wrong))

    def take(self, event: JsonValue) -> None:
        """Take a watch event (`type` and `object`), or an object in its present state.

        Raises `InputError` if an object is malformed; its previous state then stays. Raises `WatchError`
        if the event is the last one.
        """
        members = event.members()
        if "kind" in members or "type" not in members:
            self._put(event)
            return
        kind = members["type"].text()
        if kind == "BOOKMARK":
            return
        if "object" not in members:
            event.fail("the field `object` is missing")
        if kind in ("ADDED", "MODIFIED"):
            self._put(members["object"])
        elif kind == "DELETED":
            self._take_away(members["object"])
        elif kind == "ERROR":
            told = members["object"].members().get("message")
            why = told.text() if told else "the API server gave no reason"
            raise WatchError(f"{event.where}: the watch failed: {why}", "start a new watch")
        else:
            members["type"].fail("expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR")

    def _put(self, value: JsonValue) -> None:
        errors: list[InputError] = []
        for kind, name, place in list(named(value)):
            try:
                services, slices = objects([place])
            except InputError as error:
                self._wrong.add((kind, name))
                errors.append(error)
                continue
            self._wrong.discard((kind, name))
            if kind == "EndpointSlice":
                self._put_slice(name, slices[0] if slices else None)
            elif services:
                self._services[name] = services[0]
                self._touched[name] = None
            else:
                self._forget_service(name)  # it no longer has addresses
        for each in errors[:-1]:
            self.warn(f"left as it was: {each}")
        if errors:
            raise errors[-1]

    def _take_away(self, value: JsonValue) -> None:
        for kind, name, _ in list(named(value)):
            self._wrong.discard((kind, name))
            if kind == "EndpointSlice":
                self._put_slice(name, None)
            else:
                self._forget_service(name)

    def _forget_service(self, name: Name) -> None:
        if self._services.pop(name, None):
            self._touched[name] = None

    def _put_slice(self, name: Name, new: EndpointSlice | None) -> None:
        old = self._slices.pop(name, None)
        if old:
            owner = old.namespace, old.service
            del self._by_service[owner][name]
            if not self._by_service[owner]:
                del self._by_service[owner]
            self._touched[owner] = None
        if new:
            owner = new.namespace, new.service
            self._slices[name] = new
            self._by_service.setdefault(owner, {})[name] = new
            self._touched[owner] = None

    def move_to(self, own: OwnNode) -> None:
        """Set other addresses, or another zone, of the node: every Service is computed again."""
        if own != self.own:
            self.own = own
            self._touched.update(dict.fromkeys(self._services))

    def is_moved(self) -> bool:
        """Whether other addresses or sockets of the node change any decision now."""
        return self._claims.is_moved(surroundings(self.own, self.external))

    def changes(self) -> Changes:
        """Compute the changes since the last call; `frontends` is then the new result."""
        changed = [name for name in self._touched if self._work_out(name)]
        self._touched.clear()
        for name in dict.fromkeys((*changed, *self._limits.settle())):
            service, asked = self._services.get(name), self._limits.asked(name)
            frontends = self._limits.grant(name).of(asked.frontends) if asked else ()
            self._claims.put(name, service.created if service else "", frontends)
        return self._claims.settle(surroundings(self.own, self.external))

    def _work_out(self, name: Name) -> bool:
        """Compute a Service; False if it stays as it was."""
        service = self._services.get(name)
        slices = list(self._by_service.get(name, {}).values())
        try:
            asked = asked_of(service, slices, self.own) if service else None
        except InputError as error:
            self.warn(f"{'/'.join(name)} stays as it was: {error}")
            self._wrong.add(("ports", name))
            return False
        self._wrong.discard(("ports", name))
        self._note_health(name, service)
        self._limits.put(name, service.created if service else "", asked)
        return True

    def _note_health(self, name: Name, service: Service | None) -> None:
        self.health.pop(name, None)
        if service and service.health_port:
            found = local_endpoints(self._by_service.get(name, {}).values(), self.own)
            families = {each.version for each in service.cluster_ips}
            self.health[name] = service.health_port, {each: found[each] for each in families}
