"""The scripts of `integrations/argo-cd`, run by Lua as Argo CD runs them: without its libraries, but for os.date and table."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.objects import Kind, Manifest

_CONFIG = Path(__file__).parent.parent.parent / "integrations" / "argo-cd" / "argocd-cm.yaml"
LUA = shutil.which("lua5.1") or shutil.which("lua")
_HARNESS = """
local date, print, format, concat = os.date, print, string.format, table.concat
local function json(value)
  if type(value) ~= "table" then
    return type(value) == "string" and '"' .. value:gsub('[\\\\"]', "\\\\%%0") .. '"' or tostring(value)
  end
  local parts, is_list = {}, next(value) == nil or #value > 0
  for key, each in pairs(value) do
    parts[#parts + 1] = is_list and json(each) or json(tostring(key)) .. ":" .. json(each)
  end
  return is_list and "[" .. concat(parts, ",") .. "]" or "{" .. concat(parts, ",") .. "}"
end
local function require_os() return {date = function(form) return date(form, %d) end} end
"""
_SANDBOX = """
  local environment = {obj = %s, ipairs = ipairs, pairs = pairs, next = next, type = type, tostring = tostring,
    tonumber = tonumber, table = table, require = require_os}
  setfenv(1, environment)
"""


def scripts(what: str, kind: Kind) -> Any:
    """`health` or `actions` of a kind, as the ConfigMap has them."""
    text = yaml.safe_load(_CONFIG.read_text())["data"][f"resource.customizations.{what}.{kind.group}_{kind.kind}"]
    return yaml.safe_load(text) if what == "actions" else text


def said(script: str, obj: Manifest, *, now_s: float = 0.0) -> Any:
    """What a script returns for an object at a time. Empty tables are lists, as in Argo CD."""
    if LUA is None:
        pytest.skip("no Lua interpreter (Debian: lua5.1)")
    asked = f"{_HARNESS % now_s}\nlocal function run()\n{_SANDBOX % _literal(obj)}\n{script}\nend\nprint(json(run()))"
    done = subprocess.run([LUA, "-"], input=asked, capture_output=True, text=True, timeout=10, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)


def _literal(value: Any) -> str:
    """A value in Lua."""
    match value:
        case dict():
            return "{" + ", ".join(f"[{json.dumps(key)}] = {_literal(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "{" + ", ".join(map(_literal, value)) + "}"
        case None:
            return "nil"
    return json.dumps(value)


def available(kind: Kind, obj: Manifest) -> set[str]:
    """The actions that the menu of an object offers."""
    found = said(scripts("actions", kind)["discovery.lua"], obj)
    return {name for name, action in found.items() if not action["disabled"]}


def changes(kind: Kind, obj: Manifest, action: str, *, now_s: float = 0.0) -> Manifest:
    """The merge patch that an action makes of an object at a time."""
    (script,) = (each["action.lua"] for each in scripts("actions", kind)["definitions"] if each["name"] == action)
    changed: Manifest = _changed(obj, _cleaned(said(script, obj, now_s=now_s), obj))
    return changed


def _cleaned(value: Any, before: Any) -> Any:
    """With an object where Lua has an empty table for it: Argo CD takes the one that was there (util/lua/lua.go)."""
    match value, before:
        case [], dict():
            return before
        case dict(), dict():
            return {key: _cleaned(each, before.get(key)) for key, each in value.items()}
        case list(), list():
            return [_cleaned(each, old) for each, old in zip(value, before, strict=True)]
    return value


def _changed(before: Manifest, after: Manifest) -> Manifest:
    """A merge patch."""
    found: Manifest = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            found |= {key: part} if (part := _changed(old, value)) else {}
        elif value != old:
            found[key] = value
    return found
