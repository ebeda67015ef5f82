"""3 · Features and feedback in, a scoring model out.

``base.py`` is the contract, ``registry.py`` the list; each family of rankers has its folder.
"""
