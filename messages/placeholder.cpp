namespace grapevine {}
