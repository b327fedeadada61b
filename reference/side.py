# SPDX-License-Identifier: Apache-2.0
"""One worker with its names looked up."""

from __future__ import annotations

from functools import cached_property

from kvproof.reference import arithmetic
from kvproof.spec.place import StorageId
from kvproof.spec.tables import Section
from kvproof.spec.vocabulary import TOKEN_KINDS, Case, Group, Layer, Pool, Role, Storage, Table, Worker

ABSENT = Table(blocks=())


class Side:
    """A worker, and its storages, pools, groups and layers by name."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    @cached_property
    def storages(self) -> dict[str, Storage]:
        return {storage.name: storage for storage in self.worker.storages}

    @cached_property
    def pools(self) -> dict[str, Pool]:
        return {pool.name: pool for pool in self.worker.pools}

    @cached_property
    def groups(self) -> dict[str, Group]:
        return {group.name: group for group in self.worker.groups}

    @cached_property
    def layers(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.worker.layers}

    @cached_property
    def layers_by_key(self) -> dict[str, Layer]:
        return {layer.match_key: layer for layer in self.worker.layers}

    @cached_property
    def layers_of_storage(self) -> dict[str, list[Layer]]:
        found: dict[str, list[Layer]] = {storage.name: [] for storage in self.worker.storages}
        for layer in self.worker.layers:
            found[layer.storage].append(layer)
        return found

    def group_of(self, layer: Layer) -> Group:
        return self.groups[layer.group]

    def table_of(self, group: Group) -> Table:
        """The group's blocks; an empty table where there is no request."""
        return self.worker.tables.get(group.name, ABSENT)

    def storage_id(self, storage: str) -> StorageId:
        return storage_id(self.worker, storage)

    def pages_of(self, layer: Layer) -> int:
        """Pages in a layer's view: those of every block of its pool."""
        group = self.group_of(layer)
        return int(arithmetic.page_count(self.pools[group.pool].blocks, group.pages_per_block))


def side_of(case: Case, role: Role) -> Side:
    """The case's only worker of a role."""
    [worker] = case.workers(role)
    return Side(worker)


def storage_id(worker: Worker, storage: str) -> StorageId:
    """The name of a storage in places and regions: ``worker/storage``."""
    return f"{worker.name}/{storage}"


def section_of(group: Group) -> Section:
    """The part of a descriptor table that a group's regions stand in."""
    if group.kind == "ssm":
        return "ssm"
    if group.kind == "replicated-ssm":
        return "replicated-ssm"
    return "attention"


def holds_tokens(group: Group) -> bool:
    """The group's blocks hold tokens by position; those of any other hold one state (or ring) a request."""
    return group.kind in TOKEN_KINDS


def tokens_per_page(group: Group) -> int:
    """Tokens in a page of an attention or sliding group."""
    return int(arithmetic.page_tokens(group.block_tokens, group.pages_per_block))
