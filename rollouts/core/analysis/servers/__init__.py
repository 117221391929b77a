"""Kinds of metric servers, one module each. A new one is a module here and its fake in the tests."""
