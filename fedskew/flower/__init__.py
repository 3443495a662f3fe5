"""The same methods on real machines: clients and server of a Flower deployment.

`link` is the only module that knows Flower; `remote` is the engine, `client` what runs at a client, `serve`
what runs at the server, `deployment` starts everything on one machine.
"""
