"""What a catalog may send us to: the hosts that get credentials, and the places where files may lie."""

from __future__ import annotations

from calve.trust.policy import Policy, of, refuse_open

__all__ = ["Policy", "locations", "of", "overrides", "policy", "preflight", "refuse_open"]
