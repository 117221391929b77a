"""Every provider that must keep the laws."""

from __future__ import annotations

from tests.traffic.cases import declared, gateway_api, http_list_routers, other_routers
from tests.traffic.cases.case import Case

CASES: tuple[Case, ...] = (*gateway_api.CASES, *http_list_routers.CASES, *other_routers.CASES, *declared.CASES)
