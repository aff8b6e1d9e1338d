"""Modules that keep less for their gradient, under the path that programs import them from."""
