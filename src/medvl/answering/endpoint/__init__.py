"""Asks a model over the network: any server with OpenAI's chat completions and pictures as data URIs."""
